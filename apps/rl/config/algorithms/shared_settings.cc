#include "apps/rl/config/algorithms/shared_settings.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace rl {

Setting convolutions_setting(RunConfig& c) {
  return {.name = "convolutions", .help = "Before the hidden layers, of images: FILTERSxKERNELxSTRIDE,...",
          .value = &c.network.convolutions};
}

Setting initial_log_std_setting(RunConfig& c) {
  return {.name = "initial_log_std", .help = "Logarithm of the first deviation, where actions are numbers",
          .value = &c.network.initial_log_std, .least = -20, .most = 2};
}

Setting learners_setting(RunConfig& c) {
  return {.name = "learners", .help = "Actors that share every update over a collective group",
          .value = &c.num_learners, .least = 1, .most = most::kLearners};
}

std::vector<Setting> replay_settings(RunConfig& c) {
  ReplaySettings& r = c.replay;
  return {
      {.name = "gamma", .help = "Discount", .value = &r.gamma, .least = 0, .most = 1},
      {.name = "n_step", .help = "Rewards of a transition before it bootstraps", .value = &r.n_step, .least = 1,
       .most = most::kNStep},
      {.name = "replay_capacity", .help = "Transitions that are kept, in all shards", .value = &r.capacity, .least = 1,
       .most = most::kCapacity},
      {.name = "replay_shards", .help = "Replay actors", .value = &r.shards, .least = 1, .most = most::kWorkers},
      {.name = "prioritized_replay", .help = "Draws by the errors of the last time", .value = &r.prioritized},
      {.name = "priority_alpha", .help = "How much errors count: 0 not at all", .value = &r.priority_alpha, .least = 0},
      {.name = "priority_beta", .help = "Correction of the bias at the start; 1 at total_steps",
       .value = &r.priority_beta, .least = 0, .most = 1},
      {.name = "learning_starts", .help = "Steps by any actions, before the first update",
       .value = &r.learning_starts, .least = 0, .most = most::kSteps},
      {.name = "minibatch", .help = "Transitions of one update", .value = &r.minibatch, .least = 1,
       .most = most::kMinibatch},
      {.name = "updates", .help = "After every horizon; 0: one for each step played", .value = &r.updates, .least = 0,
       .most = most::kMinibatch}};
}

Activation activation_of(const NetworkSettings& n) {
  return n.activation == "relu" ? Activation::kRelu : Activation::kTanh;
}

troupe::Result<std::vector<Convolution>> convolutions_of(const std::string& text) {
  std::vector<Convolution> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, comma - at);
    Convolution c;
    int used = 0;
    if (std::sscanf(one.c_str(), "%zux%zux%zu%n", &c.filters, &c.kernel, &c.stride, &used) != 3 ||
        static_cast<std::size_t>(used) != one.size())
      return troupe::InvalidArgumentError(
          fmt::format("convolutions are FILTERSxKERNELxSTRIDE, one after the other, not '{}'", one));
    out.push_back(c);
    at = comma + 1;
  }
  return out;
}

OptimizerKind optimizer_kind(const std::string& name) {
  return name == "adam" ? OptimizerKind::kAdam : OptimizerKind::kRmsprop;
}

troupe::Result<AnyPolicySpec> actor_critic_policy(const RunConfig& config, const EnvSpecs& specs) {
  const NetworkSettings& n = config.network;
  const auto convolutions = convolutions_of(n.convolutions);
  if (!convolutions.ok()) return convolutions.error_ptr();
  auto made = policy_for(specs.observation_space, specs.action_space,
                         {.hidden = n.hidden,
                          .activation = activation_of(n),
                          .convolutions = *convolutions,
                          .initial_log_std = n.initial_log_std});
  if (!made.ok()) return made.error_ptr();
  return AnyPolicySpec(std::move(*made));
}

LinearDecay over_updates(const RunConfig& c, double first, double last) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(c.total_steps - c.replay.learning_starts, 1));
  const auto round = static_cast<double>(c.num_workers * c.num_envs * c.horizon);
  const double share = c.replay.updates == 0 ? 1 : static_cast<double>(c.replay.updates) / round;
  const auto updates = static_cast<std::int64_t>(steps * share);
  return {.first = first, .last = last, .over_steps = std::max<std::int64_t>(updates, 1)};
}

}  // namespace rl

#include "apps/rl/config/algorithms/dqn.h"

#include <utility>

#include "apps/rl/config/algorithms/shared_settings.h"
#include "apps/rl/config/learner_gpu.h"

namespace rl {
namespace {

std::vector<Setting> dqn_settings(RunConfig& c) {
  DqnSettings& d = c.dqn;
  std::vector<Setting> out = replay_settings(c);
  const std::vector<Setting> more{
      learners_setting(c),
      convolutions_setting(c),
      {.name = "learning_rate", .help = "At the start; falls linearly over all updates", .value = &d.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At the last update", .value = &d.learning_rate_last, .least = 0},
      {.name = "double_q", .help = "Chooses by the online network and values by the target", .value = &d.double_q},
      {.name = "dueling", .help = "Heads for the value and the advantages", .value = &d.dueling},
      {.name = "target_interval", .help = "Updates between those of the target", .value = &d.target_interval,
       .least = 1, .most = most::kSteps},
      {.name = "target_tau", .help = "Share of the online network; 1: a copy", .value = &d.target_tau, .least = 0,
       .most = 1},
      {.name = "epsilon", .help = "Share of any actions at the start", .value = &d.epsilon, .least = 0, .most = 1},
      {.name = "epsilon_last", .help = "At the end of its fall", .value = &d.epsilon_last, .least = 0, .most = 1},
      {.name = "epsilon_share", .help = "Share of total_steps over which it falls", .value = &d.epsilon_share,
       .least = 0, .most = 1},
      {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &d.max_grad_norm,
       .least = 0},
      {.name = "adam_epsilon", .help = "Of the optimizer", .value = &d.adam_epsilon, .least = 0}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// What was good on CartPole-v1 in Stable-Baselines3's zoo, where that algorithm is there.
void set_dqn_defaults(RunConfig& c) {
  c.num_workers = 1, c.num_envs = 1, c.horizon = 256;
  c.total_steps = 150'000;
  c.network = {.hidden = {256, 256}, .activation = "relu"};
  c.replay = {.updates = 128};
  c.dqn = {.learning_rate = 2.3e-3, .learning_rate_last = 2.3e-3, .target_interval = 128, .epsilon_last = 0.04,
           .epsilon_share = 0.16};
}

troupe::Result<AnyPolicySpec> q_policy_of(const RunConfig& c, const EnvSpecs& specs) {
  const auto convolutions = convolutions_of(c.network.convolutions);
  if (!convolutions.ok()) return convolutions.error_ptr();
  auto made = q_network_for(specs.observation_space, specs.action_space,
                            {.hidden = c.network.hidden,
                             .activation = activation_of(c.network),
                             .convolutions = *convolutions,
                             .heads = c.dqn.dueling ? QHeads::kDueling : QHeads::kPlain});
  if (!made.ok()) return made.error_ptr();
  return AnyPolicySpec(std::move(*made));
}

}  // namespace

DqnOptions dqn_options(const RunConfig& c, const QNetworkSpec& policy) {
  return {.policy = policy,
          .td_target = c.dqn.double_q ? TdTarget::kDouble : TdTarget::kPlain,
          .learning_rate = over_updates(c, c.dqn.learning_rate, c.dqn.learning_rate_last),
          .target = {.interval = c.dqn.target_interval, .tau = c.dqn.target_tau},
          .max_grad_norm = c.dqn.max_grad_norm,
          .adam_epsilon = c.dqn.adam_epsilon,
          .seed = c.seed,
          .gpu = learner_gpu(c)};
}

AlgorithmConfig dqn_algorithm() {
  return {.name = "dqn",
          .loop = LoopKind::kOffPolicy,
          .learns_on_gpus = true,
          .heeds_masks = true,
          .set_defaults = &set_dqn_defaults,
          .settings = &dqn_settings,
          .discount = [](const RunConfig& c) { return DiscountSettings{.gamma = c.replay.gamma}; },
          .policy = &q_policy_of,
          .learner = [](const RunConfig& c, const AnyPolicySpec& policy) -> std::unique_ptr<Learner> {
            return std::make_unique<DqnLearner>(dqn_options(c, std::get<QNetworkSpec>(policy)));
          }};
}

}  // namespace rl

#include "apps/rl/config/run_config.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

constexpr double kMostWorkers = 1024, kMostEnvs = 65536, kMostHorizon = 65536, kMostUnits = 1 << 20,
                 kMostSteps = 0x1p52, kMostEpochs = 1000, kMostMinibatch = 1 << 24;

/// "16x3x1,32x3x2".
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

}  // namespace

std::vector<Setting> settings_of(RunConfig& c) {
  std::vector<Setting> out{{.name = "algo", .help = "Algorithm", .value = &c.algo, .choices = {"ppo"}}};
  for (Setting& setting : settings_of(c.env)) out.push_back(std::move(setting));
  PpoSettings& p = c.ppo;
  NetworkSettings& n = c.network;
  const std::vector<Setting> more{
      {.name = "seed", .help = "Seed of environments, networks and exploration", .value = &c.seed},
      {.name = "num_workers", .help = "Rollout actors", .value = &c.num_workers, .least = 1, .most = kMostWorkers},
      {.name = "num_envs", .help = "Environments of each rollout actor", .value = &c.num_envs, .least = 1,
       .most = kMostEnvs},
      {.name = "horizon", .help = "Steps of each environment between updates", .value = &c.horizon, .least = 1,
       .most = kMostHorizon},
      {.name = "total_steps", .help = "Environment steps at most, rounded up to whole rollouts",
       .value = &c.total_steps, .least = 1, .most = kMostSteps},
      {.name = "stop_when_solved", .help = "Stops when the mean return of 100 episodes reaches the threshold",
       .value = &c.stop_when_solved},
      {.name = "hidden", .help = "Units of each hidden layer", .value = &n.hidden, .least = 1, .most = kMostUnits},
      {.name = "activation", .help = "Of hidden layers", .value = &n.activation, .choices = {"tanh", "relu"}},
      {.name = "convolutions", .help = "Before the hidden layers, of images: FILTERSxKERNELxSTRIDE,...",
       .value = &n.convolutions},
      {.name = "initial_log_std", .help = "Logarithm of the first deviation, where actions are numbers",
       .value = &n.initial_log_std, .least = -20, .most = 2},
      {.name = "gamma", .help = "Discount", .value = &p.gamma, .least = 0, .most = 1},
      {.name = "gae_lambda", .help = "Lambda of generalized advantage estimation", .value = &p.gae_lambda, .least = 0,
       .most = 1},
      {.name = "epochs", .help = "Passes over each batch", .value = &p.epochs, .least = 1, .most = kMostEpochs},
      {.name = "minibatch", .help = "Samples of one optimizer step", .value = &p.minibatch, .least = 1,
       .most = kMostMinibatch},
      {.name = "learning_rate", .help = "At the start; falls linearly over total_steps", .value = &p.learning_rate,
       .least = 0},
      {.name = "learning_rate_last", .help = "At total_steps", .value = &p.learning_rate_last, .least = 0},
      {.name = "clip", .help = "Clip range of the probability ratio at the start", .value = &p.clip, .least = 0},
      {.name = "clip_last", .help = "At total_steps", .value = &p.clip_last, .least = 0},
      {.name = "value_coefficient", .help = "Share of the value loss", .value = &p.value_coefficient, .least = 0},
      {.name = "entropy_coefficient", .help = "Share of the entropy", .value = &p.entropy_coefficient},
      {.name = "value_clipping", .help = "Clips the value loss by the clip range", .value = &p.value_clipping},
      {.name = "target_kl", .help = "Ends an update at 1.5 times this divergence; 0: never", .value = &p.target_kl,
       .least = 0},
      {.name = "max_grad_norm", .help = "Gradients are scaled to this norm at most", .value = &p.max_grad_norm,
       .least = 0},
      {.name = "adam_epsilon", .help = "Of the optimizer", .value = &p.adam_epsilon, .least = 0}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

troupe::Result<Task> task_of(const RunConfig& config) {
  const auto made = MadeEnv::make(config.env, {.num_envs = 1, .gamma = config.ppo.gamma});
  if (!made.ok()) return made.error_ptr();
  const auto convolutions = convolutions_of(config.network.convolutions);
  if (!convolutions.ok()) return convolutions.error_ptr();
  const EnvSpecs& specs = made->specs();
  auto policy = policy_for(specs.observation_space, specs.action_space,
                           {.hidden = config.network.hidden,
                            .activation = config.network.activation == "relu" ? Activation::kRelu : Activation::kTanh,
                            .convolutions = *convolutions,
                            .initial_log_std = config.network.initial_log_std});
  if (!policy.ok()) return policy.error_ptr();
  return Task{.specs = specs, .policy = std::move(*policy), .moments = made->moments()};
}

RolloutOptions rollout_options(const RunConfig& config, const PolicySpec& policy, std::size_t worker,
                               std::int64_t resumed_from) {
  RolloutOptions out;
  out.env = config.env;
  out.policy = policy;
  out.num_envs = config.num_envs;
  out.horizon = config.horizon;
  out.gae = {.gamma = config.ppo.gamma, .lambda = config.ppo.gae_lambda};
  out.seed = config.seed;
  out.worker = static_cast<std::uint32_t>(worker);
  out.resumed_from = resumed_from;
  return out;
}

PpoOptions learner_options(const RunConfig& config, const PolicySpec& policy) {
  const PpoSettings& p = config.ppo;
  PpoOptions out;
  out.policy = policy;
  out.epochs = static_cast<int>(p.epochs);
  out.minibatch = p.minibatch;
  out.learning_rate = {.first = p.learning_rate, .last = p.learning_rate_last, .over_steps = config.total_steps};
  out.clip = {.first = p.clip, .last = p.clip_last, .over_steps = config.total_steps};
  out.value_coefficient = p.value_coefficient;
  out.entropy_coefficient = p.entropy_coefficient;
  out.value_loss = p.value_clipping ? ValueLoss::kHalfClipped : ValueLoss::kFullUnclipped;
  out.target_kl = p.target_kl;
  out.max_grad_norm = p.max_grad_norm;
  out.adam_epsilon = p.adam_epsilon;
  out.seed = config.seed;
  return out;
}

}  // namespace rl

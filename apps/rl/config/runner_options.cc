#include "apps/rl/config/runner_options.h"

#include <algorithm>

namespace rl {
namespace {

NoiseOptions noise_options(const SacSettings& s) {
  const NoiseKind kind = s.noise == "white"     ? NoiseKind::kWhite
                         : s.noise == "colored" ? NoiseKind::kColored
                         : s.noise == "gsde"    ? NoiseKind::kGsde
                                                : NoiseKind::kOrnsteinUhlenbeck;
  return {.kind = kind, .beta = s.noise_beta, .sigma = s.noise_sigma, .interval = s.noise_interval};
}

FaultPrefix fault_prefix_of(const RunConfig& c) {
  return c.fault_prefix == "drop" ? FaultPrefix::kDrop : FaultPrefix::kBootstrap;
}

}  // namespace

RolloutOptions rollout_options(const RunConfig& config, const PolicySpec& policy, std::size_t worker,
                               std::int64_t resumed_from) {
  RolloutOptions out;
  out.env = config.env;
  out.policy = policy;
  out.num_envs = config.num_envs;
  out.horizon = config.horizon;
  const DiscountSettings discount = config.discount();
  out.gae = {.gamma = discount.gamma, .lambda = discount.gae_lambda};
  out.seed = config.seed;
  out.worker = static_cast<std::uint32_t>(worker);
  out.resumed_from = resumed_from;
  out.fault_prefix = fault_prefix_of(config);
  return out;
}

FragmentRunnerOptions fragment_runner_options(const RunConfig& c, const PolicySpec& policy, std::size_t runner,
                                              std::int64_t resumed_from) {
  return {.env = c.env,
          .policy = policy,
          .num_envs = c.num_envs,
          .horizon = c.horizon,
          .gamma = c.discount().gamma,
          .seed = c.seed,
          .runner = static_cast<std::uint32_t>(runner),
          .resumed_from = resumed_from,
          .fault_prefix = fault_prefix_of(c)};
}

TransitionRunnerOptions transition_runner_options(const RunConfig& c, const AnyPolicySpec& policy, std::size_t runner,
                                                  std::int64_t resumed_from) {
  const bool chooses = std::holds_alternative<QNetworkSpec>(policy);
  const auto over = static_cast<std::int64_t>(c.dqn.epsilon_share * static_cast<double>(c.total_steps));
  return {.env = c.env,
          .policy = policy,
          .num_envs = c.num_envs,
          .n_step = c.replay.n_step,
          .gamma = c.replay.gamma,
          .epsilon = chooses ? LinearDecay{.first = c.dqn.epsilon, .last = c.dqn.epsilon_last,
                                           .over_steps = std::max<std::int64_t>(over, 1)}
                             : LinearDecay{.first = 0, .last = 0},
          .random_steps = c.replay.learning_starts,
          .fault_prefix = fault_prefix_of(c),
          .noise = std::holds_alternative<SquashedGaussianSpec>(policy) ? noise_options(c.sac) : NoiseOptions{},
          .seed = c.seed,
          .runner = static_cast<std::uint32_t>(runner),
          .resumed_from = resumed_from};
}

PerturbationRunnerOptions perturbation_runner_options(const RunConfig& c, const PolicySpec& policy) {
  return {.env = c.env, .policy = policy, .deviation = c.ars.deviation, .gamma = c.discount().gamma, .seed = c.seed};
}

ReplayBufferOptions replay_options(const RunConfig& c, const AnyPolicySpec& policy, std::size_t mask_width) {
  ReplayBufferOptions out{.columns = transition_columns(observation_space_of(policy), action_space_of(policy),
                                                        mask_width),
                          .capacity = (c.replay.capacity + c.replay.shards - 1) / c.replay.shards};
  if (c.replay.prioritized) out.priorities = PriorityOptions{.alpha = c.replay.priority_alpha};
  return out;
}

}  // namespace rl

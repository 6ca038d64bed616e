#include "apps/rl/training/perturbation_runner.h"

#include <fmt/format.h>

#include "apps/rl/algorithms/philox.h"
#include "apps/rl/learners/ars_learner.h"

namespace rl {

PerturbationRunner::PerturbationRunner(const PerturbationRunnerOptions& options)
    : options_(options),
      made_(MadeEnv::make(options.env, {.num_envs = 1, .gamma = options.gamma, .masks = true}).value()),
      player_(make_player(AnyPolicySpec(options.policy))),
      step_(made_.env()),
      actions_(options.policy.action_space, 1) {
  if (options.policy.observation_space != made_.specs().observation_space ||
      options.policy.action_space != made_.specs().action_space)
    troupe::InvalidArgumentError(fmt::format("a policy for {} and {} cannot play {}",
                                             to_string(options.policy.observation_space),
                                             to_string(options.policy.action_space), made_.specs().id))
        .raise();
}

std::vector<ArsPair> PerturbationRunner::play(std::span<const float> params, const PerturbationOrder& order) {
  episodes_.clear(), steps_ = 0;
  std::vector<float> direction(searched_parameters(options_.policy)), perturbed(params.begin(), params.end());
  std::vector<ArsPair> out;
  for (std::uint32_t number = order.first; number < order.first + order.count; ++number) {
    draw_direction({.job = options_.seed, .update = order.update, .number = number}, direction);
    const std::uint64_t seed = seed_of({.job = options_.seed, .runner = number, .resumed_from = order.update});
    const auto played = [&](double sign) {
      for (std::size_t i = 0; i < direction.size(); ++i)
        perturbed[i] = params[i] + static_cast<float>(sign * options_.deviation) * direction[i];
      return episode(perturbed, seed);
    };
    const double plus = played(1);
    out.push_back({.direction = number, .plus = plus, .minus = played(-1)});
  }
  return out;
}

double PerturbationRunner::episode(std::span<const float> params, std::uint64_t seed) {
  made_.env().reset(std::span(&seed, 1));
  made_.env().observe(step_.obs.view());
  int faults = 0;
  for (std::uint32_t steps = 0;;) {
    player_->best(params, {std::as_const(step_.obs).view(), made_.action_mask()}, actions_.view());
    made_.env().step(std::as_const(actions_).view(), step_.out());
    for (const Fault& fault : made_.env().faults()) {
      ++faults_.at(static_cast<std::size_t>(fault.kind));
      if (++faults >= kMostFaults)
        troupe::RuntimeEnvError(fmt::format("{} has broken off {} episodes in a row", options_.env.id, faults)).raise();
      steps = 0;
    }
    if (step_.is_reset[0] != 0) continue;
    ++steps;
    const EpisodeEnds ends = made_.env().ends();
    if (ends.env.empty()) continue;
    steps_ += steps;
    episodes_.push_back({.step = steps_ - 1,
                         .episode_return = static_cast<float>(ends.returns[0]),
                         .length = ends.lengths[0]});
    return ends.returns[0];
  }
}

}  // namespace rl

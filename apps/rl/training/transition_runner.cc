#include "apps/rl/training/transition_runner.h"

#include <cstring>

#include <fmt/format.h>

#include "apps/rl/algorithms/philox.h"

namespace rl {
namespace {

StreamId stream_of(const TransitionRunnerOptions& o, std::uint32_t environment) {
  return {.job = o.seed, .runner = o.runner, .life = o.life, .resumed_from = o.resumed_from,
          .environment = environment};
}

std::unique_ptr<ActionNoise> noise_of(const TransitionRunnerOptions& o) {
  if (o.noise.kind == NoiseKind::kWhite) return nullptr;
  if (!std::holds_alternative<SquashedGaussianSpec>(o.policy))
    troupe::InvalidArgumentError("noise is for policies whose actions are squashed Gaussians").raise();
  const std::size_t dimensions = elements_of(action_space_of(o.policy));
  if (o.noise.kind == NoiseKind::kGsde)
    return make_held_noise({.num_envs = o.num_envs,
                            .dimensions = deviation_count(std::get<SquashedGaussianSpec>(o.policy).network),
                            .interval = o.noise.interval});
  if (o.noise.kind == NoiseKind::kOrnsteinUhlenbeck)
    return make_ornstein_uhlenbeck({.num_envs = o.num_envs, .dimensions = dimensions, .sigma = o.noise.sigma});
  return make_colored_noise({.num_envs = o.num_envs, .dimensions = dimensions, .beta = o.noise.beta});
}

const AnyPolicySpec& checked(const AnyPolicySpec& policy, const EnvSpecs& env) {
  if (observation_space_of(policy) != env.observation_space || action_space_of(policy) != env.action_space)
    troupe::InvalidArgumentError(fmt::format("a policy for {} and {} cannot play {}, which has {} and {}",
                                             to_string(observation_space_of(policy)),
                                             to_string(action_space_of(policy)), env.id,
                                             to_string(env.observation_space), to_string(env.action_space)))
        .raise();
  return policy;
}

}  // namespace

TransitionRunner::TransitionRunner(const TransitionRunnerOptions& options)
    : options_(options),
      made_(MadeEnv::make(options.env, {.num_envs = options.num_envs, .gamma = options.gamma,
                                           .clip_action = !keeps_bounds(options.policy), .masks = true}).value()),
      player_(make_player(checked(options.policy, made_.specs()), options.isa)),
      generator_(seed_of(stream_of(options, StreamId::kActions))),
      noise_(noise_of(options)),
      builder_({.observation_space = made_.specs().observation_space,
                .action_space = made_.specs().action_space,
                .num_envs = options.num_envs,
                .n_step = options.n_step,
                .gamma = options.gamma,
                .mask_width = made_.mask_width()}),
      obs_(made_.specs().observation_space, options.num_envs),
      actions_(made_.specs().action_space, options.num_envs),
      step_(made_.env()) {
  std::vector<std::uint64_t> seeds;
  for (std::uint32_t env = 0; env < options.num_envs; ++env) seeds.push_back(seed_of(stream_of(options, env)));
  made_.env().reset(seeds);
  made_.env().observe(obs_.view());
  see_mask();
}

void TransitionRunner::see_mask() {
  const std::span<const std::uint8_t> mask = made_.action_mask();
  mask_.assign(mask.begin(), mask.end());
}

std::vector<EpisodeEnd> TransitionRunner::play(std::span<const float> params, const PlayOrder& order) {
  std::vector<EpisodeEnd> episodes;
  for (std::uint32_t step = 0; step < order.steps; ++step) {
    act(params, order.done + step * order.together);
    made_.env().step(std::as_const(actions_).view(), step_.out());
    end_faulted();
    see_mask();
    const EpisodeEnds ends = made_.env().ends();
    reset_noise(ends);
    builder_.add({.obs = std::as_const(obs_).view(),
                  .action = std::as_const(actions_).view(),
                  .reward = step_.reward,
                  .terminated = step_.terminated,
                  .truncated = step_.truncated,
                  .is_reset = step_.is_reset,
                  .next_obs = std::as_const(step_.obs).view(),
                  .ends = ends,
                  .next_mask = mask_});
    for (std::size_t k = 0; k < ends.env.size(); ++k)
      episodes.push_back(
          {.step = step, .episode_return = static_cast<float>(ends.returns[k]), .length = ends.lengths[k]});
    std::swap(obs_, step_.obs);
  }
  return episodes;
}

void TransitionRunner::act(std::span<const float> params, std::int64_t done) {
  if (done < options_.random_steps)
    return random_actions(made_.specs().action_space, generator_, actions_.view(), mask_);
  Exploration how{.epsilon = options_.epsilon.at(done)};
  if (noise_) {
    const std::span<const double> noise = noise_->next(generator_);
    (options_.noise.kind == NoiseKind::kColored ? how.noise.normals
     : options_.noise.kind == NoiseKind::kGsde  ? how.noise.eps
                                                : how.noise.added) = noise;
  }
  player_->explore(params, {std::as_const(obs_).view(), mask_}, how, generator_, actions_.view());
}

void TransitionRunner::reset_noise(const EpisodeEnds& ends) {
  if (!noise_) return;
  for (const std::uint32_t env : ends.env) noise_->reset(env);
  for (const Fault& fault : made_.env().faults()) noise_->reset(fault.env);
}

/// TRR-4: what the policy last saw is the last of the prefix.
void TransitionRunner::end_faulted() {
  for (const Fault& fault : made_.env().faults()) {
    ++faults_.at(static_cast<std::size_t>(fault.kind));
    if (options_.fault_prefix == FaultPrefix::kDrop) builder_.drop(fault.env);
    else
      builder_.cut(fault.env, std::as_const(obs_).view().row(fault.env),
                   std::span(mask_).subspan(fault.env * made_.mask_width(), made_.mask_width()));
  }
}

bool TransitionRunner::visit(StateVisitor& visitor) {
  visitor.generator("generator", generator_), visitor.bytes("obs", obs_.view());
  visitor.part("builder", builder_);
  if (noise_) noise_->visit(visitor);
  StateVisitor env = visitor.inside("env");
  if (!made_.visit(env)) return false;
  if (made_.mask_width() != 0) see_mask();  // after a restore another one
  return true;
}

}  // namespace rl

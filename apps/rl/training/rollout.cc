#include "apps/rl/training/rollout.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

namespace rl {
namespace {

// Environment i of worker w starts from seed + w * num_envs + i; a resumed run, and a worker that was restarted, from a
// stream of its own.
std::uint64_t environment_seed(const RolloutOptions& o) {
  if (o.resumed_from == 0 && o.life == 0) return o.seed + o.worker * o.num_envs;
  SeedSequence stream = SeedSequence(o.seed).child(o.worker).child(static_cast<std::uint32_t>(o.resumed_from));
  if (o.life != 0) stream = stream.child(o.life);
  return stream.generate_state_uint64(1)[0];
}

SeedSequence action_seed(const RolloutOptions& o) {
  const SeedSequence stream = SeedSequence(o.seed + static_cast<std::uint64_t>(o.resumed_from)).child(o.worker);
  return o.life == 0 ? stream : stream.child(o.life);
}

}  // namespace

ActorCriticShape cartpole_networks() { return actor_critic_shape(4, 2); }

troupe::Result<ActorCriticShape> networks_for(const EnvSpecs& specs) {
  const Box* obs = std::get_if<Box>(&specs.observation_space);
  const Discrete* actions = std::get_if<Discrete>(&specs.action_space);
  if (!obs || obs->dtype != DType::kFloat32 || obs->shape.size() != 1)
    return troupe::InvalidArgumentError(fmt::format("{} shows {}; these networks need one row of float32", specs.id,
                                                    to_string(specs.observation_space)));
  if (!actions || actions->start != 0)
    return troupe::InvalidArgumentError(fmt::format("{} takes {}; this policy chooses one of several actions from 0 on",
                                                    specs.id, to_string(specs.action_space)));
  return actor_critic_shape(obs->shape[0], static_cast<std::size_t>(actions->n));
}

RolloutWorker::RolloutWorker(const RolloutOptions& options)
    : options_(options),
      envs_(make_batch_env(options.env_id, {.num_envs = options.num_envs, .auto_reset = AutoReset::kSameStep}).value()),
      net_(networks_for(envs_->specs()).value(), options.isa),
      distribution_(make_distribution(envs_->specs().action_space).value()),
      generator_(action_seed(options)),
      reward_(samples()),
      final_value_(samples()),
      last_obs_(options.num_envs * obs_size()),
      step_reward_(options.num_envs),
      actions_(options.num_envs),
      terminated_(samples()),
      truncated_(samples()),
      is_reset_(options.num_envs) {
  std::vector<std::uint64_t> seeds(options.num_envs);
  std::iota(seeds.begin(), seeds.end(), environment_seed(options));
  envs_->reset(seeds);
  envs_->observe(Rows(std::span(last_obs_), obs_size()));
}

std::vector<EpisodeEnd> RolloutWorker::collect(std::span<const float> params, const BatchOut& out) {
  const std::size_t n = options_.num_envs, width = n * obs_size();
  std::vector<EpisodeEnd> episodes;
  final_obs_.clear();
  final_rows_.clear();
  std::copy(last_obs_.begin(), last_obs_.end(), out.obs.begin());
  for (std::uint32_t step = 0; step < options_.horizon; ++step) {
    net_.evaluate(params, out.obs.subspan(step * width, width), logits_, values_);
    act(step * n, out);
    const bool last = step + 1 == options_.horizon;
    const std::span<float> next = last ? std::span(last_obs_) : out.obs.subspan((step + 1) * width, width);
    envs_->step(ConstRows(std::span(actions_), 1), {.obs = Rows(next, obs_size()),
                                                    .reward = step_reward_,
                                                    .terminated = std::span(terminated_).subspan(step * n, n),
                                                    .truncated = std::span(truncated_).subspan(step * n, n),
                                                    .is_reset = is_reset_});
    std::copy(step_reward_.begin(), step_reward_.end(), reward_.begin() + static_cast<std::ptrdiff_t>(step * n));
    record_endings(step, episodes);
  }
  if (!final_rows_.empty()) {
    net_.evaluate_values(params, final_obs_, values_);
    for (std::size_t i = 0; i < final_rows_.size(); ++i) final_value_[final_rows_[i]] = values_[i];
  }
  net_.evaluate_values(params, last_obs_, values_);
  const GaeInput<float> in{.steps = options_.horizon,
                           .envs = n,
                           .reward = reward_,
                           .value = out.value,
                           .final_value = final_value_,
                           .terminated = terminated_,
                           .truncated = truncated_,
                           .last_value = values_};
  generalized_advantages<float>(in, options_.gae, out.advantage, out.returns);
  return episodes;
}

void RolloutWorker::act(std::size_t begin, const BatchOut& out) {
  const std::size_t n = options_.num_envs;
  distribution_->sample({logits_}, generator_, Rows(std::span(actions_), 1), out.log_prob.subspan(begin, n));
  for (std::size_t i = 0; i < n; ++i) {
    out.action[begin + i] = static_cast<std::int32_t>(actions_[i]);
    out.value[begin + i] = values_[i];
  }
}

void RolloutWorker::record_endings(std::uint32_t step, std::vector<EpisodeEnd>& episodes) {
  const EpisodeEnds ends = envs_->ends();
  for (std::size_t k = 0; k < ends.env.size(); ++k) {
    const std::size_t sample = step * options_.num_envs + ends.env[k];
    episodes.push_back({.step = step, .episode_return = static_cast<float>(ends.returns[k])});
    if (terminated_[sample] != 0) continue;  // nothing to bootstrap from
    final_rows_.push_back(sample);
    const std::span<const float> last = ends.final_obs.row(k).as<float>();
    final_obs_.insert(final_obs_.end(), last.begin(), last.end());
  }
}

}  // namespace rl

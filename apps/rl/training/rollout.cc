#include "apps/rl/training/rollout.h"

#include <algorithm>
#include <cmath>

namespace rl {
namespace {

constexpr std::size_t kObsSize = RolloutWorker::obs_size();

struct Choice {
  std::int32_t action;
  float log_prob;
};

Choice sample(std::span<const float> logits, double draw) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  float sum = 0;
  for (float v : logits) sum += std::exp(v - largest);
  const float log_sum = largest + std::log(sum);
  double passed = 0;
  std::size_t action = 0;
  for (; action + 1 < logits.size(); ++action) {
    passed += static_cast<double>(std::exp(logits[action] - log_sum));
    if (draw < passed) break;
  }
  return {static_cast<std::int32_t>(action), logits[action] - log_sum};
}

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

ActorCriticShape cartpole_networks() { return actor_critic_shape(kObsSize, 2); }

RolloutWorker::RolloutWorker(const RolloutOptions& options)
    : options_(options),
      net_(cartpole_networks(), options.isa),
      envs_({.num_envs = options.num_envs, .auto_reset = AutoReset::kSameStep}),
      generator_(action_seed(options)),
      reward_(samples(), 1.0f),
      final_value_(samples()),
      actions_(options.num_envs),
      terminated_(samples()),
      truncated_(samples()) {
  envs_.reset(environment_seed(options));
}

std::vector<EpisodeEnd> RolloutWorker::collect(std::span<const float> params, const BatchOut& out) {
  const std::size_t n = options_.num_envs;
  std::vector<EpisodeEnd> episodes;
  final_obs_.clear();
  final_rows_.clear();
  for (std::uint32_t step = 0; step < options_.horizon; ++step) {
    const std::span<float> obs = out.obs.subspan(step * n * kObsSize, n * kObsSize);
    read_observations(obs);
    net_.evaluate(params, obs, logits_, values_);
    act(step * n, out);
    envs_.step(actions_);
    std::copy(envs_.terminated().begin(), envs_.terminated().end(),
              terminated_.begin() + static_cast<std::ptrdiff_t>(step * n));
    std::copy(envs_.truncated().begin(), envs_.truncated().end(),
              truncated_.begin() + static_cast<std::ptrdiff_t>(step * n));
    record_endings(step, episodes);
  }
  if (!final_rows_.empty()) {
    net_.evaluate_values(params, final_obs_, values_);
    for (std::size_t i = 0; i < final_rows_.size(); ++i) final_value_[final_rows_[i]] = values_[i];
  }
  std::vector<float> last_obs(n * kObsSize);
  read_observations(last_obs);
  net_.evaluate_values(params, last_obs, values_);
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

void RolloutWorker::read_observations(std::span<float> rows) const {
  for (std::size_t field = 0; field < kObsSize; ++field) {
    const std::span<const float> column = envs_.obs(field);
    for (std::size_t i = 0; i < column.size(); ++i) rows[i * kObsSize + field] = column[i];
  }
}

void RolloutWorker::act(std::size_t begin, const BatchOut& out) {
  const std::size_t choices = logits_.size() / options_.num_envs;
  for (std::size_t i = 0; i < options_.num_envs; ++i) {
    const Choice choice = sample(std::span(logits_).subspan(i * choices, choices), generator_.random());
    actions_[i] = static_cast<std::uint8_t>(choice.action);
    out.action[begin + i] = choice.action;
    out.log_prob[begin + i] = choice.log_prob;
    out.value[begin + i] = values_[i];
  }
}

void RolloutWorker::record_endings(std::uint32_t step, std::vector<EpisodeEnd>& episodes) {
  for (std::size_t k = 0; k < envs_.ended().size(); ++k) {
    const std::size_t env = envs_.ended()[k];
    episodes.push_back({.step = step, .episode_return = static_cast<float>(envs_.ended_length()[k])});
    if (envs_.terminated()[env] != 0) continue;  // nothing to bootstrap from
    final_rows_.push_back(step * options_.num_envs + env);
    for (std::size_t field = 0; field < kObsSize; ++field) final_obs_.push_back(envs_.final_obs(field)[env]);
  }
}

}  // namespace rl

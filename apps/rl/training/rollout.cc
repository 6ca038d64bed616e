#include "apps/rl/training/rollout.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "apps/rl/algorithms/philox.h"

namespace rl {
namespace {

StreamId rollout_stream(const RolloutOptions& o, std::uint32_t environment) {
  return {.job = o.seed, .runner = o.worker, .life = o.life, .resumed_from = o.resumed_from,
          .environment = environment};
}

// The first life has the streams that it had before there were others, so that runs of old can be repeated: environment
// i of worker w starts from seed + w * num_envs + i, in a resumed run from a number of its own. Later lives: ROL-6.
std::vector<std::uint64_t> environment_seeds(const RolloutOptions& o) {
  std::vector<std::uint64_t> seeds(o.num_envs);
  if (o.life != 0) {
    for (std::uint32_t env = 0; env < o.num_envs; ++env) seeds[env] = seed_of(rollout_stream(o, env));
    return seeds;
  }
  const SeedSequence resumed = SeedSequence(o.seed).child(o.worker).child(static_cast<std::uint32_t>(o.resumed_from));
  std::iota(seeds.begin(), seeds.end(),
            o.resumed_from == 0 ? o.seed + o.worker * o.num_envs : resumed.generate_state_uint64(1)[0]);
  return seeds;
}

Generator action_generator(const RolloutOptions& o) {
  if (o.life != 0) return Generator(seed_of(rollout_stream(o, StreamId::kActions)));
  return Generator(SeedSequence(o.seed + static_cast<std::uint64_t>(o.resumed_from)).child(o.worker));
}

const PolicySpec& checked(const PolicySpec& policy, const EnvSpecs& env) {
  check_policy(policy).value();
  if (policy.observation_space != env.observation_space || policy.action_space != env.action_space)
    troupe::InvalidArgumentError(fmt::format("a policy for {} and {} cannot play {}, which has {} and {}",
                                             to_string(policy.observation_space), to_string(policy.action_space),
                                             env.id, to_string(env.observation_space), to_string(env.action_space)))
        .raise();
  return policy;
}

}  // namespace

RolloutWorker::RolloutWorker(const RolloutOptions& options)
    : options_(options),
      made_(MadeEnv::make(options.env, {.num_envs = options.num_envs, .gamma = options.gae.gamma, .masks = true})
                .value()),
      net_(checked(options.policy, made_.specs()).networks, options.isa),
      encoder_(ObservationEncoder::make(options.policy.observation_space).value()),
      distribution_(make_distribution<float>(options.policy.action_space).value()),
      generator_(action_generator(options)),
      last_obs_(options.policy.observation_space, options.num_envs),
      reward_(samples()),
      final_value_(samples()),
      step_reward_(options.num_envs),
      terminated_(samples()),
      truncated_(samples()),
      is_reset_(options.num_envs) {
  made_.env().reset(environment_seeds(options));
  made_.env().observe(last_obs_.view());
}

std::vector<Column> RolloutWorker::columns() const {
  return on_policy_columns(options_.policy.observation_space, options_.policy.action_space, made_.mask_width());
}

std::vector<EpisodeEnd> RolloutWorker::collect(std::span<const float> params, const OnPolicyOut& out) {
  const std::size_t n = options_.num_envs;
  std::vector<EpisodeEnd> episodes;
  final_obs_.clear();
  final_rows_.clear();
  dropped_.clear();
  std::memcpy(out.obs.data(), last_obs_.view().data(), last_obs_.view().bytes());
  for (std::uint32_t step = 0; step < options_.horizon; ++step) {
    net_.evaluate(params, encoder_.encode(out.obs.slice(step * n, n), encoded_), action_params_, values_);
    act(step * n, made_.action_mask(), out);
    const bool last = step + 1 == options_.horizon;
    made_.env().step(out.action.slice(step * n, n), {.obs = last ? last_obs_.view() : out.obs.slice((step + 1) * n, n),
                                                .reward = step_reward_,
                                                .terminated = std::span(terminated_).subspan(step * n, n),
                                                .truncated = std::span(truncated_).subspan(step * n, n),
                                                .is_reset = is_reset_});
    std::copy(step_reward_.begin(), step_reward_.end(), reward_.begin() + static_cast<std::ptrdiff_t>(step * n));
    record_endings(step, episodes);
    record_faults(step, out.value.subspan(step * n, n));
  }
  if (!final_rows_.empty()) {
    values_of(params, {out.obs.dtype(), final_rows_.size(), out.obs.width(), final_obs_.data()});
    for (std::size_t i = 0; i < final_rows_.size(); ++i) final_value_[final_rows_[i]] = values_[i];
  }
  values_of(params, last_obs_.view());
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

void RolloutWorker::values_of(std::span<const float> params, ConstRows obs) {
  net_.evaluate_values(params, encoder_.encode(obs, encoded_), values_);
}

void RolloutWorker::act(std::size_t begin, std::span<const std::uint8_t> mask, const OnPolicyOut& out) {
  const std::size_t n = options_.num_envs;
  if (!mask.empty()) std::ranges::copy(mask, out.mask.slice(begin, n).as<std::uint8_t>().begin());  // ROL-7
  distribution_->sample({action_params_, mask}, generator_, out.action.slice(begin, n),
                        out.log_prob.subspan(begin, n));
  std::copy(values_.begin(), values_.end(), out.value.begin() + static_cast<std::ptrdiff_t>(begin));
}

/// ROL-4: a last step whose reward is just what was expected.
void RolloutWorker::record_faults(std::uint32_t step, std::span<const float> values) {
  for (const Fault& fault : made_.env().faults()) {
    ++faults_.at(static_cast<std::size_t>(fault.kind));
    const std::size_t sample = step * options_.num_envs + fault.env;
    reward_[sample] = values[fault.env];
    terminated_[sample] = 1;
    if (options_.fault_prefix == FaultPrefix::kDrop) drop_prefix(step, fault.env);
  }
}

/// ROL-4: the rows of an environment since its last episode ended, or the batch began.
void RolloutWorker::drop_prefix(std::uint32_t step, std::size_t env) {
  dropped_.resize(samples());
  std::size_t sample = step * options_.num_envs + env;
  dropped_[sample] = 1;
  while (sample >= options_.num_envs) {
    sample -= options_.num_envs;
    if (terminated_[sample] != 0 || truncated_[sample] != 0) return;
    dropped_[sample] = 1;
  }
}

std::optional<std::vector<std::uint32_t>> RolloutWorker::kept() const {
  if (dropped_.empty()) return std::nullopt;
  std::vector<std::uint32_t> out;
  for (std::uint32_t row = 0; row < dropped_.size(); ++row)
    if (dropped_[row] == 0) out.push_back(row);
  return out;
}

void RolloutWorker::record_endings(std::uint32_t step, std::vector<EpisodeEnd>& episodes) {
  const EpisodeEnds ends = made_.env().ends();
  for (std::size_t k = 0; k < ends.env.size(); ++k) {
    const std::size_t sample = step * options_.num_envs + ends.env[k];
    episodes.push_back(
        {.step = step, .episode_return = static_cast<float>(ends.returns[k]), .length = ends.lengths[k]});
    if (terminated_[sample] != 0) continue;  // nothing to bootstrap from
    final_rows_.push_back(sample);
    const ConstRows last = ends.final_obs.row(k);
    final_obs_.insert(final_obs_.end(), last.data(), last.data() + last.bytes());
  }
}

bool RolloutWorker::visit(StateVisitor& visitor) {
  visitor.generator("generator", generator_), visitor.bytes("last_obs", last_obs_.view());
  StateVisitor env = visitor.inside("env");
  return made_.visit(env);
}

}  // namespace rl

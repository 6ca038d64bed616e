#include "apps/rl/training/fragment_runner.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "apps/rl/algorithms/philox.h"

namespace rl {
namespace {

StreamId fragment_stream(const FragmentRunnerOptions& o, std::uint32_t environment) {
  return {.job = o.seed, .runner = o.runner, .life = o.life, .resumed_from = o.resumed_from,
          .environment = environment};
}

const PolicySpec& checked_for_fragments(const PolicySpec& policy, const EnvSpecs& env) {
  if (policy.observation_space != env.observation_space || policy.action_space != env.action_space)
    troupe::InvalidArgumentError(fmt::format("a policy for {} and {} cannot play {}",
                                             to_string(policy.observation_space), to_string(policy.action_space),
                                             env.id))
        .raise();
  return policy;
}

}  // namespace

FragmentRunner::FragmentRunner(const FragmentRunnerOptions& options)
    : options_(options),
      made_(MadeEnv::make(options.env, {.num_envs = options.num_envs, .gamma = options.gamma, .masks = true}).value()),
      columns_(fragment_columns(options.policy.observation_space, options.policy.action_space, made_.mask_width())),
      sampler_(checked_for_fragments(options.policy, made_.specs()),
               seed_of(fragment_stream(options, StreamId::kActions)), options.isa),
      last_obs_(options.policy.observation_space, options.num_envs),
      obs_(options.policy.observation_space, transitions()),
      actions_(options.policy.action_space, transitions()),
      log_prob_(transitions()),
      reward_(transitions()),
      terminated_(transitions()),
      truncated_(transitions()),
      is_reset_(transitions()),
      mask_(transitions() * made_.mask_width()) {
  std::vector<std::uint64_t> seeds;
  for (std::uint32_t env = 0; env < options.num_envs; ++env) seeds.push_back(seed_of(fragment_stream(options, env)));
  made_.env().reset(seeds);
  made_.env().observe(last_obs_.view());
}

std::vector<EpisodeEnd> FragmentRunner::play(std::span<const float> params) {
  return play([&](const Seen& seen, Rows actions, std::span<float> log_prob) {
    sampler_.choose(params, seen, actions, log_prob);
  });
}

std::vector<EpisodeEnd> FragmentRunner::play(const Choose& choose) {
  const std::size_t n = options_.num_envs;
  std::vector<EpisodeEnd> episodes;
  finals_.clear();
  std::memcpy(obs_.view().data(), last_obs_.view().data(), last_obs_.view().bytes());
  for (std::uint32_t step = 0; step < options_.horizon; ++step) {
    const std::span<const std::uint8_t> mask = made_.action_mask();
    std::ranges::copy(mask, mask_.begin() + static_cast<std::ptrdiff_t>(step * mask.size()));
    choose({std::as_const(obs_).view().slice(step * n, n), mask}, actions_.view().slice(step * n, n),
           std::span(log_prob_).subspan(step * n, n));
    take_step(step, episodes);
  }
  return episodes;
}

void FragmentRunner::take_step(std::uint32_t step, std::vector<EpisodeEnd>& episodes) {
  const std::size_t n = options_.num_envs, first = step * n;
  const bool last = step + 1 == options_.horizon;
  made_.env().step(std::as_const(actions_).view().slice(first, n),
                   {.obs = last ? last_obs_.view() : obs_.view().slice(first + n, n),
                    .reward = std::span(reward_).subspan(first, n),
                    .terminated = std::span(terminated_).subspan(first, n),
                    .truncated = std::span(truncated_).subspan(first, n),
                    .is_reset = std::span(is_reset_).subspan(first, n)});
  for (const Fault& fault : made_.env().faults()) {
    ++faults_.at(static_cast<std::size_t>(fault.kind));
    if (options_.fault_prefix == FaultPrefix::kDrop) drop_prefix(first + fault.env);
  }
  const EpisodeEnds ends = made_.env().ends();
  for (std::size_t k = 0; k < ends.env.size(); ++k) {
    episodes.push_back(
        {.step = step, .episode_return = static_cast<float>(ends.returns[k]), .length = ends.lengths[k]});
    const std::size_t row = first + ends.env[k];
    if (terminated_[row] != 0) continue;
    const ConstRows final_obs = ends.final_obs.row(k);
    finals_.push_back({.row = row, .obs = {final_obs.data(), final_obs.data() + final_obs.bytes()}});
  }
}

/// FRR-4: `row` is that of a fault; rows are marked up to the end of the episode before, or the fragment's beginning.
void FragmentRunner::drop_prefix(std::size_t row) {
  const std::size_t n = options_.num_envs;
  while (row >= n) {
    row -= n;
    if (terminated_[row] != 0 || truncated_[row] != 0) return;
    is_reset_[row] = 1;
  }
}

void FragmentRunner::write(const SampleLayout& layout, std::byte* memory) const {
  const FragmentOut out = fragment_out(layout, memory);
  const std::size_t n = options_.num_envs, count = transitions();
  std::memcpy(out.obs.data(), obs_.view().data(), obs_.view().bytes());
  std::memcpy(out.obs.slice(count, n).data(), last_obs_.view().data(), last_obs_.view().bytes());
  std::memcpy(out.action.data(), actions_.view().data(), actions_.view().bytes());
  for (std::size_t row = count; row < out.reward.size(); ++row)
    std::memcpy(out.action.row(row).data(), actions_.view().data(), out.action.row_bytes());
  std::copy(log_prob_.begin(), log_prob_.end(), out.log_prob.begin());
  if (!mask_.empty()) {
    const std::span<std::uint8_t> mask = out.mask.as<std::uint8_t>();
    std::ranges::copy(mask_, mask.begin());
    std::ranges::fill(mask.subspan(mask_.size()), std::uint8_t{1});
  }
  std::ranges::fill(out.next, -1);
  for (auto numbers : {out.reward, out.discount}) std::ranges::fill(numbers, 0.0f);
  std::fill(out.log_prob.begin() + static_cast<std::ptrdiff_t>(count), out.log_prob.end(), 0.0f);
  for (std::size_t row = 0; row < count; ++row) {
    if (is_reset_[row] != 0) continue;  // FRR-4
    const bool ended = terminated_[row] != 0;
    out.reward[row] = static_cast<float>(reward_[row]);
    out.discount[row] = ended ? 0.0f : static_cast<float>(options_.gamma);
    out.next[row] = static_cast<std::int64_t>(ended ? row : row + n);
  }
  for (std::size_t k = 0; k < finals_.size(); ++k) {
    const std::size_t row = count + n + k;
    std::memcpy(out.obs.row(row).data(), finals_[k].obs.data(), finals_[k].obs.size());
    out.next[finals_[k].row] = static_cast<std::int64_t>(row);
  }
}

}  // namespace rl

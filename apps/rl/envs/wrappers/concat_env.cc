#include "apps/rl/envs/wrappers/concat_env.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

/// What `of` shows of all parts, one after the other; nothing when one shows nothing.
template <class T, class Of>
std::span<const T> joined(const std::vector<std::unique_ptr<BatchEnv>>& parts, std::vector<T>& into, Of of) {
  into.clear();
  for (const auto& part : parts) {
    const std::span<const T> one = of(*part);
    if (one.empty()) return {};
    into.insert(into.end(), one.begin(), one.end());
  }
  return into;
}

}  // namespace

troupe::Result<std::unique_ptr<ConcatEnv>> ConcatEnv::make(std::vector<std::unique_ptr<BatchEnv>> parts) {
  if (parts.empty()) return troupe::InvalidArgumentError("at least one environment is needed");
  const EnvSpecs& first = parts.front()->specs();
  for (const auto& part : parts)
    if (!(part->specs().observation_space == first.observation_space) ||
        !(part->specs().action_space == first.action_space) ||
        part->specs().masks_actions != first.masks_actions)
      return troupe::InvalidArgumentError(
          fmt::format("{} and {} have other spaces or masks, and cannot be one batch", first.id, part->specs().id));
  return std::unique_ptr<ConcatEnv>(new ConcatEnv(std::move(parts)));
}

ConcatEnv::ConcatEnv(std::vector<std::unique_ptr<BatchEnv>> parts) : parts_(std::move(parts)), first_{0} {
  for (const auto& part : parts_) first_.push_back(first_.back() + part->size());
  final_obs_ = OwnedRows(specs().observation_space, size());
}

void ConcatEnv::reset(std::span<const std::uint64_t> seeds) {
  if (seeds.size() != size())
    troupe::InvalidArgumentError(fmt::format("{} seeds for {} environments", seeds.size(), size())).raise();
  for (std::size_t p = 0; p < parts_.size(); ++p) parts_[p]->reset(seeds.subspan(first_[p], parts_[p]->size()));
  ended_.clear(), returns_.clear(), lengths_.clear(), final_masks_.clear(), faults_.clear();
  final_rows_ = 0;
}

void ConcatEnv::reset_one(std::size_t env) {
  if (env >= size())
    troupe::InvalidArgumentError(fmt::format("no environment {} of {} of {}", env, size(), specs().id)).raise();
  const auto part = static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), env) - first_.begin()) - 1;
  parts_[part]->reset_one(env - first_[part]);
}

void ConcatEnv::observe(Rows obs) const {
  for (std::size_t p = 0; p < parts_.size(); ++p) parts_[p]->observe(obs.slice(first_[p], parts_[p]->size()));
}

void ConcatEnv::step(ConstRows actions, const StepOut& out) {
  ended_.clear(), returns_.clear(), lengths_.clear(), final_masks_.clear(), faults_.clear();
  final_rows_ = 0;
  for (std::size_t p = 0; p < parts_.size(); ++p) {
    const std::size_t first = first_[p], count = parts_[p]->size();
    parts_[p]->step(actions.slice(first, count), {.obs = out.obs.slice(first, count),
                                                  .reward = out.reward.subspan(first, count),
                                                  .terminated = out.terminated.subspan(first, count),
                                                  .truncated = out.truncated.subspan(first, count),
                                                  .is_reset = out.is_reset.subspan(first, count)});
    add_ends(p);
  }
}

void ConcatEnv::add_ends(std::size_t part) {
  const EpisodeEnds ends = parts_[part]->ends();
  for (std::uint32_t env : ends.env) ended_.push_back(env + static_cast<std::uint32_t>(first_[part]));
  returns_.insert(returns_.end(), ends.returns.begin(), ends.returns.end());
  lengths_.insert(lengths_.end(), ends.lengths.begin(), ends.lengths.end());
  if (ends.final_obs.rows() > 0)
    std::memcpy(final_obs_.view().row(final_rows_).data(), ends.final_obs.data(), ends.final_obs.bytes());
  final_rows_ += ends.final_obs.rows();
  for (Fault fault : parts_[part]->faults()) {
    fault.env += static_cast<std::uint32_t>(first_[part]);
    faults_.push_back(std::move(fault));
  }
  final_masks_.insert(final_masks_.end(), ends.final_mask.begin(), ends.final_mask.end());
}

EpisodeEnds ConcatEnv::ends() const {
  return {ended_, returns_, lengths_, final_obs_.view().slice(0, final_rows_), final_masks_};
}

std::span<const std::uint8_t> ConcatEnv::action_mask() const {
  return joined(parts_, masks_, [](const BatchEnv& part) { return part.action_mask(); });
}

std::span<const std::int32_t> ConcatEnv::lives() const {
  return joined(parts_, lives_, [](const BatchEnv& part) { return part.lives(); });
}

}  // namespace rl

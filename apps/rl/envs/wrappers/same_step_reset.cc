#include "apps/rl/envs/wrappers/same_step_reset.h"

#include <cstring>

#include <fmt/format.h>

namespace rl {

SameStepReset::SameStepReset(std::unique_ptr<BatchEnv> inner)
    : EnvWrapper(std::move(inner)),
      final_obs_(specs().observation_space, size()),
      shown_(specs().observation_space, size()) {}

void SameStepReset::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  ended_.clear(), returns_.clear(), lengths_.clear(), final_mask_.clear(), faults_.clear();
}

void SameStepReset::step(ConstRows actions, const StepOut& out) {
  inner().step(actions, out);
  const EpisodeEnds ends = inner().ends();
  if (ends.final_obs.rows() > 0 || !only_faults_reset(out.is_reset, inner().faults()))
    troupe::InvalidArgumentError(fmt::format("{} resets itself; SameStepReset needs AutoReset::kDisabled", specs().id))
        .raise();
  faults_.assign(inner().faults().begin(), inner().faults().end());
  ended_.assign(ends.env.begin(), ends.env.end());
  returns_.assign(ends.returns.begin(), ends.returns.end());
  lengths_.assign(ends.lengths.begin(), ends.lengths.end());
  final_mask_.clear();
  if (ended_.empty()) return;
  const std::span<const std::uint8_t> masks = inner().action_mask();
  const std::size_t width = masks.size() / size();
  for (std::size_t k = 0; k < ended_.size(); ++k) {
    const Rows row = out.obs.row(ended_[k]);
    std::memcpy(final_obs_.view().row(k).data(), row.data(), row.bytes());
    const auto mask = masks.subspan(ended_[k] * width, width);
    final_mask_.insert(final_mask_.end(), mask.begin(), mask.end());
  }
  for (std::uint32_t env : ended_) {
    inner().reset_one(env);
  }
  inner().observe(shown_.view());
  for (std::uint32_t env : ended_) {
    const Rows row = out.obs.row(env);
    std::memcpy(row.data(), shown_.view().row(env).data(), row.bytes());
  }
}

EpisodeEnds SameStepReset::ends() const {
  return {ended_, returns_, lengths_, final_obs_.view().slice(0, ended_.size()), final_mask_};
}

}  // namespace rl

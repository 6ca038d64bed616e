#include "apps/rl/training/gate.h"

#include <algorithm>
#include <utility>

namespace rl {

bool Gate::wants_copy(std::int64_t steps) {
  if (options_.every <= 0 || steps / options_.every <= taken_) return false;
  taken_ = steps / options_.every;
  return true;
}

bool Gate::add(const CopyResult& result) {
  copies_.push_back(result);
  if (state_ != GateState::kOpen || !decides(result)) return false;
  state_ = GateState::kAgain;
  return true;
}

void Gate::add_again(const CopyResult& result) {
  again_ = result;
  state_ = reaches(result.mean) ? GateState::kPassed : GateState::kFailed;
}

void Gate::restore(std::vector<CopyResult> copies, std::optional<CopyResult> again) {
  copies_ = std::move(copies);
  state_ = GateState::kOpen;
  taken_ = copies_.empty() || options_.every <= 0 ? 0 : copies_.back().steps / options_.every;
  if (again) add_again(*again);
  else if (std::ranges::any_of(copies_, [this](const CopyResult& copy) { return decides(copy); }))
    state_ = GateState::kAgain;
}

std::optional<CopyResult> Gate::awaited() const {
  if (state_ != GateState::kAgain) return std::nullopt;
  return *std::ranges::find_if(copies_, [this](const CopyResult& copy) { return decides(copy); });
}

}  // namespace rl

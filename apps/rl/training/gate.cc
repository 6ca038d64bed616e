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
}

bool Gate::await(const CopyResult& first) {
  if (state_ != GateState::kOpen || !decides(first) || std::ranges::find(copies_, first) == copies_.end()) return false;
  state_ = GateState::kAgain;
  return true;
}

}  // namespace rl

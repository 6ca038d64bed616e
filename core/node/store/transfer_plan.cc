#include "core/node/store/transfer_plan.h"

#include <string>
#include <utility>

namespace troupe::node {

TransferPlan::Actions TransferPlan::begin() {
  Actions out;
  ++rounds_;
  ask(origin_, out);
  return out;
}

TransferPlan::Actions TransferPlan::answered(std::uint32_t node, const Status& status,
                                             const std::vector<std::uint32_t>& others) {
  Actions out;
  if (finished_ || asked_.erase(node) == 0) return out;
  if (status.ok()) {
    held_.insert(node);
    if (drawing_from_ == 0) draw(node, out);
    return out;
  }
  out.push_back(Release{node});
  if (node == origin_) {
    last_error_ = status.error_ptr();
    const ErrorCode code = status.error().code();
    if (code == ErrorCode::kObjectLost) {  // its own word: the buffer was freed, its copies are void
      finish(status, out);
      return out;
    }
    origin_gone_ = code == ErrorCode::kNodeDied || code == ErrorCode::kWorkerCrashed;  // dead, or nobody is there
    ask_others(others, out);
  }
  go_on(out);
  return out;
}

TransferPlan::Actions TransferPlan::drawn(const Status& status, const std::vector<std::uint32_t>& others) {
  Actions out;
  if (finished_ || drawing_from_ == 0) return out;
  const std::uint32_t node = std::exchange(drawing_from_, 0);
  if (status.ok()) {
    finish(status, out);
    return out;
  }
  last_error_ = status.error_ptr();
  release(node, out);
  ++failures_[node];
  if (origin_gone_) others_asked_ = false;  // copies are all that is left: also who gave damaged bytes is asked again
  ask_others(others, out);
  go_on(out);
  return out;
}

TransferPlan::Actions TransferPlan::late() {
  Actions out;
  if (finished_) return out;
  const std::string why = last_error_ ? ": " + last_error_->message() : "";
  finish(DeadlineExceededError("no holder of the buffer gave its bytes in time" + why), out);
  return out;
}

/// Draws from whoever keeps it; with nobody left to hope for, asks the origin again or ends.
void TransferPlan::go_on(Actions& out) {
  if (finished_ || drawing_from_ != 0) return;
  if (!held_.empty()) return draw(*held_.begin(), out);
  if (!asked_.empty()) return;
  if (origin_gone_ || failures_[origin_] >= kTriesMax || rounds_ >= kRoundsMax) return finish(last_error_, out);
  ++rounds_;
  others_asked_ = false;  // somebody may have a copy by now
  ask(origin_, out);
}

void TransferPlan::ask(std::uint32_t node, Actions& out) {
  if (asked_.contains(node) || held_.contains(node) || failures_[node] >= kTriesMax) return;
  asked_.insert(node);
  out.push_back(Ask{node});
}

void TransferPlan::ask_others(const std::vector<std::uint32_t>& others, Actions& out) {
  if (std::exchange(others_asked_, true)) return;
  for (std::uint32_t node : others) {
    if (node != origin_) ask(node, out);
  }
}

void TransferPlan::draw(std::uint32_t node, Actions& out) {
  drawing_from_ = node;
  out.push_back(Draw{node});
}

void TransferPlan::release(std::uint32_t node, Actions& out) {
  if (held_.erase(node) > 0 || asked_.erase(node) > 0) out.push_back(Release{node});
}

void TransferPlan::finish(Status status, Actions& out) {
  finished_ = true;
  for (std::uint32_t node : held_) out.push_back(Release{node});
  for (std::uint32_t node : asked_) out.push_back(Release{node});
  held_.clear();
  asked_.clear();
  out.push_back(Finish{std::move(status)});
}

}  // namespace troupe::node

#include "core/node/store/transfer_plan.h"

#include <algorithm>
#include <utility>

namespace troupe::node {

TransferPlan::Actions TransferPlan::begin() {
  Actions out;
  ask(origin_, out);
  return out;
}

TransferPlan::Actions TransferPlan::answered(std::uint32_t node, const Status& status,
                                             const std::vector<std::uint32_t>& others) {
  Actions out;
  if (finished_ || asked_.erase(node) == 0) return out;
  if (status.ok()) {
    held_.insert(node);
    offered_.insert(node);
    if (drawing_from_ == 0) draw(node, out);
    return out;
  }
  out.push_back(Release{node});
  const ErrorCode code = status.error().code();
  if (code != ErrorCode::kGetTimeout) offered_.erase(node);  // who is silent may have it still
  if (node == origin_) {
    last_failure_ = status.error().message();
    if (code == ErrorCode::kObjectLost) {  // its own word: the buffer was freed, its copies are void
      finish(status, out);
      return out;
    }
    // dead, or nobody is there: the verdict, which no broken connection brings
    if (code == ErrorCode::kNodeDied || code == ErrorCode::kWorkerCrashed) origin_death_ = status.error_ptr();
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
  last_failure_ = status.error().message();
  ++vain_draws_;
  if (origin_death_) failed_.insert(node);  // TP-5
  else release(node, out);
  ask_others(others, out);
  go_on(out);
  return out;
}

TransferPlan::Actions TransferPlan::resumed(const std::vector<std::uint32_t>& others) {
  Actions out;
  if (finished_ || !std::exchange(pausing_, false)) return out;
  others_asked_ = false;  // somebody may have a copy by now
  failed_.clear();
  if (!origin_death_) {
    ask(origin_, out);
    return out;
  }
  drop_dead(others, out);
  ask_others(others, out);
  go_on(out);
  return out;
}

TransferPlan::Actions TransferPlan::late() {
  Actions out;
  if (finished_) return out;
  std::string why = "no holder of the buffer gave its bytes in time";
  if (vain_draws_ > 0) why += ", after " + std::to_string(vain_draws_) + " attempts to draw them";
  if (!last_failure_.empty()) why += ": " + last_failure_;
  finish(DeadlineExceededError(why), out);  // TP-4
  return out;
}

/// Draws from whoever keeps it; with nobody left to hope for in this round, ends or waits for the next.
void TransferPlan::go_on(Actions& out) {
  if (finished_ || drawing_from_ != 0) return;
  for (std::uint32_t node : held_)
    if (!failed_.contains(node)) return draw(node, out);
  if (!asked_.empty()) return;
  // Copies are all that is left: also who gave damaged bytes, or was not reached, is asked again.
  if (origin_death_ && offered_.empty()) return finish(origin_death_, out);
  pausing_ = true;
  out.push_back(Pause{pause_});
  pause_ = std::min(2 * pause_, kPauseMax);
}

void TransferPlan::ask(std::uint32_t node, Actions& out) {
  if (asked_.contains(node) || held_.contains(node)) return;
  asked_.insert(node);
  out.push_back(Ask{node});
}

/// Who keeps it over a pause is not asked again, so its death is seen here.
void TransferPlan::drop_dead(const std::vector<std::uint32_t>& others, Actions& out) {
  for (std::uint32_t node : std::set(held_)) {
    if (std::find(others.begin(), others.end(), node) != others.end()) continue;
    offered_.erase(node);
    release(node, out);
  }
}

/// Also those who offered it and have no link any more: they answer that they are dead, and are hoped for no longer.
void TransferPlan::ask_others(const std::vector<std::uint32_t>& others, Actions& out) {
  if (std::exchange(others_asked_, true)) return;
  for (std::uint32_t node : others)
    if (node != origin_) ask(node, out);
  for (std::uint32_t node : offered_)
    if (node != origin_) ask(node, out);
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

#include "core/caller/streams.h"

#include "core/caller/caller.h"
#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"

namespace troupe::worker {

void StreamState::push(detail::ObjectPtr item) {
  items_.push_back(std::move(item));
  if (waiter_) waiter_->notify();
}

void StreamState::item(std::uint64_t index, detail::Value value) {
  if (index < received_ && !ended_) tell_taken();  // ST-3
  if (index != received_ || ended_) return;        // ST-1: an item that an earlier attempt has brought already
  ++received_;
  ObjectEntry* entry = caller_.owner().objects().make_owned();
  caller_.owner().objects().complete(*entry, std::move(value));
  push(detail::ObjectPtr::adopt(entry));
}

void StreamState::finish() {
  call_id = 0;
  ended_ = true;
  if (waiter_) waiter_->notify();
}

void StreamState::fail(const ErrorPtr& error) {
  if (ended_) return;
  ObjectEntry* entry = caller_.owner().objects().make_owned();
  caller_.owner().objects().fail(*entry, error);
  ended_ = true;
  call_id = 0;
  push(detail::ObjectPtr::adopt(entry));
}

bool StreamState::take(detail::ObjectPtr& item) {
  if (items_.empty()) return ended_;
  item = std::move(items_.front());
  items_.pop_front();
  ++taken_;
  tell_taken();
  return true;
}

void StreamState::tell_taken() {
  if (PendingCall* call = call_id ? caller_.calls().find(call_id) : nullptr;
      call && call->state == PendingCall::State::kSent)
    runtime_.frames().control(call->target, Control::kStreamCredit, call_id, taken_);
}

detail::ObjectPtr StreamState::next() {
  exec::Waiter waiter(runtime_);
  WaitScope scope(runtime_, waiter);
  for (;;) {
    {
      CoreLock lock(runtime_);
      waiter_ = nullptr;
      detail::ObjectPtr item;
      if (take(item)) return item;
      scope.check();
      waiter_ = &waiter;
    }
    scope.wait(exec::kNever);
  }
}

void StreamState::dropped() {
  PendingCall* call = call_id ? caller_.calls().find(call_id) : nullptr;
  if (!call) return;
  call->stream = nullptr;
  if (call->state == PendingCall::State::kSent) runtime_.frames().control(call->target, Control::kStreamDrop, call_id);
  caller_.cancel(*call, {});
}

void StreamState::last_released() noexcept {
  auto drop = [this] {
    CoreLock lock(runtime_);
    dropped();
    delete this;
  };
  if (runtime_.lock_held()) runtime_.defer(drop);
  else drop();
}

}  // namespace troupe::worker

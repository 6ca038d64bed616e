#include "core/executor/checkpoints.h"

#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/executor/host.h"
#include "core/executor/hosted_actor.h"
#include "core/owner/owner.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

void Checkpoints::begin(exec::Deadline now) {
  taken_at_ = now;
  if (!last_) return;
  number_ = last_->number;
  last_.reset();
}

void Checkpoints::maybe_take(bool idle) {
  if (!changed_ || in_progress_ || !idle) return;
  const exec::Deadline due = taken_at_ + actor_.spec().checkpoint_every;
  if (host_.runtime().now() >= due) {
    in_progress_ = true;
    changed_ = false;
    return actor_.post([this] { take(); });
  }
  if (timer_) return;
  timer_ = true;
  host_.runtime().add_timer(due, [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    timer_ = false;
    actor_.checkpoint_due();
  });
}

/// On one of the actor's threads, lock not held.
void Checkpoints::take() {
  detail::Value state;
  bool taken = false;
  try {
    actor_.operations().checkpoint(actor_.instance(), state);
    taken = true;
  } catch (...) {
    write_log(LogLevel::kError, "the checkpoint of actor {} failed: {}", actor_.spec().class_name,
              describe_current_exception().message);
  }
  CoreLock lock(host_.runtime());
  in_progress_ = false;
  taken_at_ = host_.runtime().now();
  if (taken) {
    wire::Checkpoint message;
    message.actor = actor_.id();
    message.restarts = actor_.restarts();
    message.number = ++number_;
    auto hold = std::make_shared<Outgoing>(kHead);
    message.state = host_.owner().values().describe(state, *hold);
    hold_ = hold;  // the newest checkpoint's buffers and refs live as long as it is the newest
    message.keys = actor_.encode_keys();
    host_.runtime().frames().notice(kHead, wire::Method::kCheckpoint, message);
  }
  actor_.checkpoint_done();
}

}  // namespace troupe::worker

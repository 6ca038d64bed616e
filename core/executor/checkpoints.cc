#include "core/executor/checkpoints.h"

#include <algorithm>
#include <utility>

#include "core/base/exception.h"
#include "core/base/log.h"
#include "core/executor/host.h"
#include "core/executor/hosted_actor.h"
#include "core/owner/owner.h"
#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
constexpr auto kDrainMax = std::chrono::seconds(1);
constexpr auto kDrainPause = std::chrono::seconds(20);
}  // namespace

void Checkpoints::begin(exec::Deadline now) {
  taken_at_ = now;
  if (!last_) return;
  number_ = last_->number;
  last_.reset();
}

void Checkpoints::maybe_take(bool idle) {
  if (!changed_ || in_progress_) return;
  const exec::Deadline due = std::max(taken_at_ + actor_.spec().checkpoint_every, not_before_);
  if (host_.runtime().now() >= due) {
    if (!idle) return actor_.calls_overlap() ? begin_drain() : void();  // of one call at a time the end is awaited
    in_progress_ = true;
    draining_ = changed_ = false;
    return actor_.post([this] { take(); });
  }
  if (std::exchange(timer_, true)) return;
  at(due, [this] {
    timer_ = false;
    actor_.checkpoint_due();
  });
}

void Checkpoints::at(exec::Deadline when, std::function<void()> action) {
  host_.runtime().add_timer(when, [alive = std::weak_ptr<int>(alive_), action = std::move(action)] {
    if (!alive.expired()) action();
  });
}

void Checkpoints::begin_drain() {
  if (std::exchange(draining_, true)) return;
  at(host_.runtime().deadline_after(kDrainMax), [this, drain = ++drains_] {
    if (!draining_ || drain != drains_) return;
    draining_ = false;
    not_before_ = host_.runtime().deadline_after(kDrainPause);
    write_log(LogLevel::kWarn,
              "no checkpoint of actor {} could be taken: a call of it has been open for a second while no other began; "
              "this is tried again in {} s",
              actor_.spec().class_name, kDrainPause.count());
    actor_.checkpoint_due();  // for its timer
    actor_.checkpoint_done();
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
    state_ = std::move(state);
    keys_ = actor_.encode_keys();
    send();
  }
  actor_.checkpoint_done();
}

void Checkpoints::send() {
  ValueCodec& values = host_.owner().values();
  wire::Checkpoint message;
  message.actor = actor_.id();
  message.restarts = actor_.restarts();
  message.number = ++number_;
  auto hold = std::make_shared<Outgoing>(kHead);
  message.state = values.describe(state_, *hold);
  ValueCodec::Refs refs;
  values.add_refs(state_, *hold, refs);
  message.refs = std::move(refs.ready);
  if (refs.left_out > 0 && !std::exchange(warned_, true))
    write_log(
        LogLevel::kWarn,
        "the checkpoint of actor {} has refs to more than {} MiB of small values: {} are not kept with it and can be "
        "read only while their owners live",
        actor_.spec().class_name, ValueCodec::kRefBytesMax >> 20, refs.left_out);
  message.keys = keys_;
  if (!host_.runtime().frames().notice(kHead, wire::Method::kCheckpoint, message)) {
    if (!std::exchange(warned_too_large_, true))
      write_log(LogLevel::kWarn,
                "the checkpoint of actor {}, with the results of its keyed calls, is larger than a message may be ({} "
                "MiB): the one before it stays",
                actor_.spec().class_name, net::kPayloadMax >> 20);
    state_ = {};
    return;
  }
  hold_ = hold;  // the newest checkpoint's buffers and refs live as long as it is the newest
  for (const auto& ref : refs.pending) await(ref);
  if (refs.pending.empty()) state_ = {};
}

void Checkpoints::await(const detail::ObjectPtr& ref) {
  ObjectEntry& entry = entry_of(ref);
  if (!awaited_.insert(entry.id).second) return;
  host_.owner().objects().want(entry);
  entry.rare().callbacks.push_back([&host = host_, actor = actor_.id(), id = entry.id] {
    CoreLock lock(host.runtime());
    if (HostedActor* here = host.hosted(actor)) here->ref_settled(id);
  });
}

void Checkpoints::ref_settled(ObjectId ref) {
  awaited_.erase(ref);
  if (state_.attachments) send();
}

}  // namespace troupe::worker

// A call on its way: a task, an actor call or a cast, from submit until its results are here.
#pragma once
#include <memory>
#include <vector>

#include "core/runtime/frames.h"
#include "core/owner/objects.h"
#include <troupe/detail/call.h>
#include <troupe/options.h>

namespace troupe::worker {

struct LeaseState;
struct ClassState;
class StreamState;

/// What few calls need: texts, limits, retries.
struct CallInfo {
  std::string name, key, group;
  Duration timeout = kForever;
  RetryPolicy retry;
  Resources resources;
  bool plain_resources = true;            // just cpus
  std::uint32_t stream_buffer = 0;
};

///   WAITING (arguments) --all ready--> QUEUED --lease or actor has room--> SENT --reply--> gone
///                                        ^----recall, or unbegun at a death---|
///                                        ^--time is over-- BACKOFF <--a retry-'   tasks; calls of actors queue at once
struct PendingCall {
  enum class State : std::uint8_t { kWaiting, kQueued, kSent, kBackoff, kDone };

  PendingCall(std::uint64_t id) : id(id) {}

  std::uint64_t id;
  const detail::FunctionNode* function = nullptr;
  detail::Value arguments;
  std::vector<detail::ObjectPtr> dependencies;
  ObjectEntry* single = nullptr;          // the only result, when there is one and somebody wants it
  std::vector<ObjectEntry*> several;      // results, when there are more
  std::shared_ptr<const CallInfo> info;   // null: defaults
  ClassState* lease_class = nullptr;      // tasks
  LeaseState* lease = nullptr;            // tasks that were sent
  // actor calls (an ActorClient): keeps the actor's handle while the call is open
  detail::HandlePtr actor;
  StreamState* stream = nullptr;          // generators: the reading end, while somebody reads
  std::uint64_t number = 0;               // of the call frame on its connection
  std::uint64_t caller = 0;
  std::uint64_t timer = 0;                // of its deadline, while it runs; 0: none
  std::uint64_t parent = 0;               // the task here that submitted it: for recursive cancel
  ProcessId target;
  std::uint32_t unresolved = 0, attempt = 0;
  std::int32_t retries_left = 0, oom_retries_left = -1;
  std::uint16_t returns = 1;
  CallKind kind = CallKind::kTask;
  State state = State::kWaiting;
  bool cancelled = false;                 // results were given; the reply is awaited for the books only
  bool suspect = false;                   // sent, its actor's process died, its fate is not known yet
  bool had_begun = false;                 // with suspect: it may have run
  bool returned = false;                  // sent, and not begun by a light actor that had ended: for its next life
  PendingCall* next = nullptr;            // queues
  PendingCall* previous = nullptr;

  template <class F> void for_each_result(F&& f) {
    if (single) f(*single);
    for (ObjectEntry* entry : several)
      if (entry) f(*entry);
  }
};

/// An intrusive list of calls in order.
class CallList {
 public:
  bool empty() const { return !first_; }
  std::size_t size() const { return size_; }
  PendingCall* front() const { return first_; }
  /// In front of `next`; null: at the end.
  void insert(PendingCall& call, PendingCall* next) {
    call.next = next;
    call.previous = next ? next->previous : last_;
    (call.previous ? call.previous->next : first_) = &call;
    (next ? next->previous : last_) = &call;
    ++size_;
  }
  void push_back(PendingCall& call) { insert(call, nullptr); }
  void push_front(PendingCall& call) { insert(call, first_); }
  void remove(PendingCall& call) {
    (call.previous ? call.previous->next : first_) = call.next;
    (call.next ? call.next->previous : last_) = call.previous;
    call.next = call.previous = nullptr;
    --size_;
  }
  PendingCall* pop_front() {
    PendingCall* call = first_;
    if (call) remove(*call);
    return call;
  }

 private:
  PendingCall* first_ = nullptr;
  PendingCall* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace troupe::worker

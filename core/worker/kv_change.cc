// The worker's side of kKvAwait: laps of bounded length, so that a wait that was given up (a cancel) leaves nothing at the head
// for longer than a lap, and so that a head that was away is asked again.
#include <troupe/detail/kv_change.h>

#include <algorithm>
#include <memory>

#include "core/worker/context.h"
#include "core/worker/core.h"
#include "core/worker/waits.h"

namespace troupe::detail {

using namespace worker;

namespace {

constexpr Duration kLapMax = std::chrono::seconds(60);
constexpr Duration kAnswerMax = std::chrono::seconds(30);  // after the lap's end: the head is not there

struct Answer {
  std::optional<Result<wire::KvValue>> value;
  exec::Waiter* waiter = nullptr;  // guarded by the core's lock; null when nobody waits any more
};

/// Unlinks the waiter, however the wait ends.
class Link {
 public:
  Link(Core& core, Answer& answer) : core_(core), answer_(answer) {}
  ~Link() {
    CoreLock lock(core_);
    answer_.waiter = nullptr;
  }
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

 private:
  Core& core_;
  Answer& answer_;
};

std::optional<std::string> ask(Core& core, const wire::KvAwait& wanted) {
  const auto answer = std::make_shared<Answer>();
  exec::Waiter waiter(core);
  WaitScope scope(core, waiter);
  Link link(core, *answer);
  {
    CoreLock lock(core);
    answer->waiter = &waiter;
    core.requests().send<wire::KvValue>(kHead, wire::Method::kKvAwait, wanted, [answer](Result<wire::KvValue> value) {
      answer->value.emplace(std::move(value));
      if (answer->waiter) answer->waiter->notify();
    });
  }
  const auto deadline = exec::deadline_after(Duration(wanted.timeout_ns) + kAnswerMax);
  for (bool in_time = true;; in_time = scope.wait(deadline)) {
    CoreLock lock(core);
    if (answer->value) return std::move(*answer->value).value().value;
    scope.check();
    if (!in_time) throw GetTimeoutError("the head did not answer whether the key '" + wanted.key + "' has changed");
  }
}

}  // namespace

std::optional<std::string> await_kv_change(const std::string& key, const std::optional<std::string>& known, Duration timeout) {
  Core& core = require_core();
  const exec::Deadline deadline = exec::deadline_after(timeout);
  for (;;) {
    const Duration left = deadline - std::min(deadline, exec::Deadline::clock::now());
    std::optional<std::string> value = ask(core, {key, known, std::min(left, kLapMax).count()});
    if (value != known || left <= kLapMax) return value;
  }
}

}  // namespace troupe::detail

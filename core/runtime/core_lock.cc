#include "core/runtime/core_lock.h"

#include <cassert>

namespace troupe::worker {

namespace {
thread_local const StateMutex* held_here = nullptr;
}

bool StateMutex::held() const noexcept { return held_here == this; }

void StateMutex::retake() {
  mutex_.lock();
  held_here = this;
}

void StateMutex::release() {
  held_here = nullptr;
  mutex_.unlock();
}

void StateMutex::lock() { retake(); }

void StateMutex::unlock() {
  for (;;) {
    while (!dropped_.empty())
      for (auto [finish, thing] : std::exchange(dropped_, {})) finish(thing);
    if (deferred_.empty()) return release();
    std::vector<std::function<void()>> deferred = std::exchange(deferred_, {});
    release();
    for (auto& action : deferred) action();
    deferred.clear();  // what the actions held is dropped without the lock
    retake();
  }
}

void StateMutex::without(const std::function<void()>& action) {
  assert(dropped_.empty() && deferred_.empty());
  release();
  action();
  retake();
}

}  // namespace troupe::worker

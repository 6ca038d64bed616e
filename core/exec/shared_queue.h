// SharedQueue: the work of several fiber threads in one queue: whichever is free takes the next, so that a method which
// blocks its thread holds up no work that another thread could do.
//
// Invariants
//   SQU-1  Work is taken in the order in which it was posted.
//   SQU-2  While work waits, a thread without work has been asked to take it; when there is none, each has been, and
//          the first that is free takes it.
// Thread rule: any thread, but for add (before the first post) and close (when none of the threads runs user code any
// more).
#pragma once
#include <deque>
#include <functional>
#include <mutex>
#include <vector>

#include "core/exec/fibers.h"

namespace troupe::exec {

class SharedQueue {
 public:
  void add(FiberThread& thread) { takers_.push_back({&thread}); }
  void post(std::function<void()> work);
  /// The threads may be gone from now on.
  void close();

 private:
  struct Taker {
    FiberThread* thread = nullptr;
    bool asked = false;
  };
  void ask();
  void ask(std::size_t taker);
  void take(std::size_t taker);

  std::mutex mutex_;
  std::deque<std::function<void()>> work_;
  std::vector<Taker> takers_;
  std::size_t next_ = 0;
  bool closed_ = false;
};

}  // namespace troupe::exec

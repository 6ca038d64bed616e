// PageThread: makes the pages of a store's arena on a thread of its own, so that the daemon's loop never waits for the
// kernel to clear memory.
//
//   want(ticket, range)   Requests that have their room wait for it: each is told by `made`. They take turns of kPiece
//                         bytes, so that a small one does not wait for a large one.
//   ahead(range)          Fresh memory that nobody asked for yet, touched when nothing is wanted, at a low priority.
//
// Thread rule: want, drop and ahead from any thread. `made` and `ahead_done` run on the page thread, one at a time, and
// must not block; none runs after the destructor.
//
// Invariants
//   PGT-1  Each ticket is answered once, unless it was dropped; a ticket that was dropped may still be answered.
//   PGT-2  Work that is wanted never waits for more than one step of work ahead (2 MiB).
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "objectstore/arena/arena.h"
#include "objectstore/server/server.h"

namespace troupe::node {

class PageThread {
 public:
  struct Hooks {
    std::function<void(store::PageTicket, const Status&)> made;
    std::function<void(const Status&)> ahead_done;  ///< the range of the last ahead(), or a part of it, was touched
  };
  PageThread(store::Arena& arena, Hooks hooks);
  ~PageThread();

  void want(store::PageTicket ticket, store::Range range);
  void drop(store::PageTicket ticket);
  void ahead(store::Range range);

 private:
  static constexpr std::uint64_t kPiece = 64 << 20;
  struct Job {
    store::PageTicket ticket = 0;
    store::Range left;
  };
  void make_wanted();
  void touch_ahead();
  /// Where nothing is wanted any more. Under mutex_.
  void go_on_ahead();

  store::Arena& arena_;
  const Hooks hooks_;
  std::mutex mutex_;
  std::condition_variable wanted_wake_, ahead_wake_;
  std::deque<Job> jobs_;                // under mutex_
  std::optional<store::Range> ahead_;   // under mutex_
  bool stop_ = false;                   // under mutex_
  std::optional<store::PageTicket> at_;  // under mutex_: whose pages are being made
  std::atomic<bool> stop_wanted_{false};  ///< the present piece is not wanted any more, or the end
  std::atomic<bool> stop_ahead_{false};   ///< something is wanted, or the end
  std::thread wanted_thread_, ahead_thread_;
};

}  // namespace troupe::node

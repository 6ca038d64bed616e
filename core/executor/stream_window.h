// StreamWindow: how far a generator may run ahead of its reader, in items and in bytes. Pure.
//
//   may_make() --yes--> the next item is made --made(bytes)--> ahead --taken(n): the reader has n items in all--> gone
//       `--no--> the generator waits for the reader
//
// Items alone are no bound: 64 arrays of 4 MiB fill a small store, and a second generator that reads the first then
// waits for memory that only its own progress can free.
//
// Invariants
//   XSW-1  At most `items` items are ahead.
//   XSW-2  No item is made while those ahead have `bytes` bytes or more; one that is larger than that may be ahead
//          alone.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstdint>
#include <deque>

namespace troupe::worker {

class StreamWindow {
 public:
  /// Of the node's store: what the items of one stream that nobody has taken yet may fill.
  static constexpr std::uint64_t kShareOfStore = 8;

  StreamWindow(std::uint64_t items, std::uint64_t bytes) : items_max_(items), bytes_max_(bytes) {}

  bool may_make() const { return made_ < taken_ + items_max_ && (bytes_ < bytes_max_ || ahead_.empty()); }
  void made(std::uint64_t bytes) {
    if (made_++ < taken_) return;  // of an earlier attempt: the reader has it
    ahead_.push_back(bytes);
    bytes_ += bytes;
  }
  void taken(std::uint64_t count) {
    for (; taken_ < count; ++taken_) {
      if (ahead_.empty()) continue;
      bytes_ -= ahead_.front();
      ahead_.pop_front();
    }
  }
  std::uint64_t made() const { return made_; }

 private:
  const std::uint64_t items_max_, bytes_max_;
  std::uint64_t made_ = 0, taken_ = 0, bytes_ = 0;
  std::deque<std::uint64_t> ahead_;  ///< bytes of the items taken_ .. made_
};

}  // namespace troupe::worker

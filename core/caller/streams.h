// Streams: the reading end of a generator that runs elsewhere.
//
//   producer --kStreamItem(index)--> items --next_item--> reader;  reader --kStreamCredit(read)--> producer
//
// Invariants
//   ST-1  Items come out in order of their index, each once, whatever attempt of the producer made them.
//   ST-2  The producer is at most `buffer` items ahead of what the reader has taken, in bytes as StreamWindow allows.
//   ST-3  An attempt that makes an item which the reader has is told how far the reader is: what a producer is told
//         before it runs, it does not hear.
// Thread rule: lock held, but for next.
#pragma once
#include <deque>

#include "core/caller/calls.h"

namespace troupe::worker {

class Caller;
class Runtime;

class StreamState final : public detail::StreamBase {
 public:
  StreamState(Runtime& runtime, Caller& caller, std::uint32_t buffer)
      : runtime_(runtime), caller_(caller), buffer_(buffer) {}

  std::uint64_t call_id = 0;  // of the producing call; 0 when it is done

  void item(std::uint64_t index, detail::Value value);
  /// The producer has ended; its items came before that.
  void finish();
  void fail(const ErrorPtr& error);
  std::uint32_t buffer() const { return buffer_; }
  std::uint64_t taken() const { return taken_; }

  /// Waits for the next item; null at the end.
  detail::ObjectPtr next();
  /// The same without waiting: false when there is neither an item nor the end. Lock held.
  bool take(detail::ObjectPtr& item);
  void dropped();

 protected:
  void last_released() noexcept override;

 private:
  void push(detail::ObjectPtr item);
  void tell_taken();

  Runtime& runtime_;
  Caller& caller_;
  std::uint32_t buffer_;
  std::deque<detail::ObjectPtr> items_;
  std::uint64_t received_ = 0, taken_ = 0;
  bool ended_ = false;
  exec::Waiter* waiter_ = nullptr;
};

}  // namespace troupe::worker

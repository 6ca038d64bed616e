// LinkQueue: the frames of a link that wait for their turn, laid out in batches as they come.
//
// Thread rule: none of its own; the link's mutex guards it.
//
// Invariants
//   NLQ-1  take() gives the frames in the order of push(), whole, in batches of at most kBatchTarget bytes; a frame
//          longer than that goes alone.
//   NLQ-2  bytes() is what was pushed and not yet reported as done().
#pragma once
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include "core/net/base/frame.h"
#include "core/net/link/link.h"

namespace troupe::net {

class LinkQueue {
 public:
  void push(const FrameHeader& header, std::span<const ByteView> pieces, std::size_t payload_size) {
    std::string& batch = batch_for(sizeof header + payload_size);
    batch.append(reinterpret_cast<const char*>(&header), sizeof header);
    for (const auto& piece : pieces) batch.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  void push_raw(ByteView frames) {
    batch_for(frames.size()).append(reinterpret_cast<const char*>(frames.data()), frames.size());
  }

  bool empty() const { return batches_.empty(); }
  std::size_t bytes() const { return bytes_; }

  /// The next batch; not when empty(). Its size must be reported by done() when its write has ended.
  std::string take() {
    std::string batch = std::move(batches_.front());
    batches_.pop_front();
    return batch;
  }
  /// A write of `size` bytes has ended; the buffer is kept for a later batch.
  void done(std::size_t size, std::string buffer) {
    bytes_ -= size;
    if (buffer.capacity() <= 2 * kBatchTarget && buffer.capacity() > spare_.capacity()) {
      spare_ = std::move(buffer);
      spare_.clear();
    }
  }
  void clear() {
    batches_.clear();
    bytes_ = 0;
  }

 private:
  std::string& batch_for(std::size_t size) {
    bytes_ += size;
    const bool fits = !batches_.empty() && batches_.back().size() + size <= kBatchTarget;
    if (!fits) {
      batches_.push_back(std::exchange(spare_, {}));
      if (batches_.back().capacity() < size) batches_.back().reserve(size);
    }
    return batches_.back();
  }

  std::deque<std::string> batches_;
  std::string spare_;
  std::size_t bytes_ = 0;
};

}  // namespace troupe::net

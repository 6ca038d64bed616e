// HeldFrames: frames that wait in this process because their destination, or the way to it, takes nothing now. A queue
// for each destination. Pure.
//
//   add, count --> queue of the destination --next(), when it may go, in turn--> out
//                                           `-drop(), drop_node(): it is dead
//
// Counts (give a borrowed object back, be counted as its borrower, ask for its value) are state and no events: however
// often an object comes and goes while its owner takes nothing, the owner has to hear the sum.
//
// Thread rule: one thread at a time.
//
// Invariants
//   HLF-1  Frames to one destination leave in the order of add(). Destinations that may go take turns, a frame each.
//   HLF-2  Of each count at most one frame waits for an object and destination. Releases are added up, in the place of
//          the last one: later than asked is safe, earlier is not. A question that waits already is not asked again:
//          its answer serves whoever borrows the object then.
//   HLF-3  Nothing is dropped but with its destination.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <map>
#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/net/base/frame.h"

namespace troupe::worker {

/// What a borrower tells an owner about one object.
enum class Count : std::uint8_t { kRelease, kBorrow, kValueRequest };

/// The payload of Control::kRelease.
struct ReleasedGrants { ObjectId id; std::uint64_t grants = 0; };
static_assert(sizeof(ReleasedGrants) == 24);

class HeldFrames {
 public:
  struct Frame {
    net::FrameHeader header;
    std::vector<std::byte> payload;
    std::size_t bytes() const { return sizeof header + payload.size(); }
  };

  bool empty() const { return queues_.empty(); }
  bool contains(ProcessId destination) const { return queues_.contains(destination); }
  /// What waits for it, headers included.
  std::size_t bytes(ProcessId destination) const {
    auto found = queues_.find(destination);
    return found == queues_.end() ? 0 : found->second.bytes;
  }
  std::size_t frames(ProcessId destination) const {
    auto found = queues_.find(destination);
    return found == queues_.end() ? 0 : found->second.frames.size();
  }

  void add(ProcessId destination, const net::FrameHeader& header, ByteView payload) {
    append(queues_[destination], header, payload);
  }
  /// `payload`: ReleasedGrants of a release, else the object's id.
  void count(ProcessId destination, Count what, ObjectId id, const net::FrameHeader& header, ByteView payload) {
    Queue& queue = queues_[destination];
    auto [place, is_new] = queue.counts.try_emplace({id, what});
    if (!is_new) {
      if (what != Count::kRelease) return;
      const std::uint64_t before = grants_of(*place->second);
      queue.bytes -= place->second->bytes();
      queue.frames.erase(place->second);
      append(queue, header, payload);
      add_grants(queue.frames.back(), before);
    } else {
      append(queue, header, payload);
    }
    place->second = std::prev(queue.frames.end());
    place->second->key = {id, what};
    place->second->is_count = true;
  }

  /// Takes the next frame of a destination that may go. False: there is none.
  template <class MayGo>
  bool next(const MayGo& may_go, ProcessId& destination, Frame& frame) {
    for (std::size_t tried = 0; tried < queues_.size(); ++tried) {
      auto at = queues_.upper_bound(last_);
      if (at == queues_.end()) at = queues_.begin();
      last_ = at->first;
      if (!may_go(at->first)) continue;
      Queue& queue = at->second;
      Waiting& first = queue.frames.front();
      if (first.is_count) queue.counts.erase(first.key);
      queue.bytes -= first.bytes();
      destination = at->first;
      frame = std::move(first);
      queue.frames.pop_front();
      if (queue.frames.empty()) queues_.erase(at);
      return true;
    }
    return false;
  }
  template <class Pred> bool any_of(const Pred& pred) const {
    for (const auto& [destination, queue] : queues_)
      if (pred(destination)) return true;
    return false;
  }

  void drop(ProcessId destination) { queues_.erase(destination); }
  void drop_node(std::uint32_t node) {
    std::erase_if(queues_, [node](const auto& one) { return one.first.node == node; });
  }

 private:
  using CountKey = std::pair<ObjectId, Count>;
  struct Waiting : Frame {
    CountKey key{};
    bool is_count = false;
  };
  struct Queue {
    std::list<Waiting> frames;
    std::map<CountKey, std::list<Waiting>::iterator> counts;
    std::size_t bytes = 0;
  };

  static void append(Queue& queue, const net::FrameHeader& header, ByteView payload) {
    Waiting waiting;
    waiting.header = header;
    waiting.payload.assign(payload.begin(), payload.end());
    queue.bytes += waiting.bytes();
    queue.frames.push_back(std::move(waiting));
  }
  static std::uint64_t grants_of(const Frame& frame) {
    ReleasedGrants released;
    std::memcpy(&released, frame.payload.data(), sizeof released);
    return released.grants;
  }
  static void add_grants(Frame& frame, std::uint64_t more) {
    ReleasedGrants released;
    std::memcpy(&released, frame.payload.data(), sizeof released);
    released.grants += more;
    std::memcpy(frame.payload.data(), &released, sizeof released);
  }

  std::map<ProcessId, Queue> queues_;
  ProcessId last_;  ///< whose turn was
};

}  // namespace troupe::worker

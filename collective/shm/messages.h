// ShmMessages: send and recv between the ranks of a segment. Each ordered pair has a ring of bytes, a stream of
// messages:
//
//   | bytes, tag, type | payload ... | bytes, tag, type | payload ...
//
// A sender fills the ring as room comes; a receiver empties it into the memory of the first recv with that tag, or,
// when there is none yet, into memory of its own (several messages up to kStashMax, or one of any size; then it stops
// reading, and the sender waits). It reads while it has a recv of that sender; what the ring does not hold waits for
// that.
//
// Invariants
//   SM-1  Messages of one pair and tag arrive in the order in which they were sent, whole, and to the recv that was
//         posted first.
//   SM-2  A message of another size or type than the recv asks for is a mismatch.
// Thread rule: one thread at a time.
#pragma once
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/shm/segment.h"

namespace troupe::collective {

class ShmMessages {
 public:
  ShmMessages(ShmSegment& segment, int rank);
  void post(Transfer& transfer);
  /// Moves what can be moved; true when anything moved. `mismatch` is set when a message does not fit.
  bool pump(std::optional<Failure>& mismatch);
  /// Has anything changed since the last pump?
  bool changed();
  /// Is anything posted that is not done?
  bool under_way() const;
  /// Forgets everything under way.
  void clear();
  /// What errors call the ranks: those of the larger group that these are a part of.
  void call_ranks(std::vector<int> names) { names_ = std::move(names); }

 private:
  struct Header { std::uint64_t bytes; std::int32_t tag; std::uint32_t type; };
  struct Stash { Header header; std::vector<std::byte> data; std::size_t got = 0; };
  struct Peer {
    std::deque<Transfer*> sends, recvs;
    std::list<Stash> stashed;
    std::uint64_t written = 0, read = 0;      // our own cursors
    std::uint64_t seen_written = 0, seen_read = 0;
    bool in_message = false;
    Header header{};
    std::size_t got = 0;
    Transfer* target = nullptr;
    Stash* stash = nullptr;
  };
  bool pump_sends(int peer);
  bool pump_recvs(int peer, std::optional<Failure>& mismatch);
  bool take_stashed(int peer, std::optional<Failure>& mismatch);
  bool begin_message(int peer, std::optional<Failure>& mismatch);
  void put(int peer, const void* from, std::size_t bytes);
  void take(int peer, void* to, std::size_t bytes);
  Failure describe(int peer, const Header& header, const Transfer& transfer) const;

  int name(int rank) const { return names_.empty() ? rank : names_[std::size_t(rank)]; }

  ShmSegment& segment_;
  int rank_;
  std::vector<int> names_;
  std::vector<Peer> peers_;
  std::size_t stashed_bytes_ = 0;
};

}  // namespace troupe::collective

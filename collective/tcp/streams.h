// TcpStreams: the data sockets of a rank as streams of frames, in both directions at once, without ever waiting.
//
//   a frame:   | bytes | sequence | what | count | scale | payload ... |
//
// Frames of an operation carry its number and signature, and are received in the order in which the operation asks for
// them. Frames of messages carry tag and type (sequence 0); they go to the first recv with that tag, or into memory of
// our own until one is posted (at most kStreamStashMax of all peers together, those to oneself counted and never
// refused; then a stream that brings one more is not read). A frame of a later operation than this rank is in stays
// where it is: its sender is ahead.
//
// Invariants
//   TCS-1  Frames of one pair arrive in the order in which they were sent, whole.
//   TCS-2  A frame whose signature differs from that of the operation with its number, or whose size is not what is
//          asked for, is a mismatch; none of its payload is written anywhere.
//   TCS-3  Messages of one pair and tag go to the recvs in the order in which these were posted.
//   TCS-4  A message that nobody has asked for yet takes addresses by its header's word, at most kStreamStashMax, and
//          pages as its bytes come.
// Thread rule: one thread at a time.
#pragma once
#include <poll.h>

#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/tcp/links.h"

namespace troupe::collective {

class TcpStreams {
 public:
  explicit TcpStreams(TcpLinks& links);

  /// From now on frames of this operation are taken.
  void begin(const Progress& progress);
  /// No operation is under way.
  void end() { in_operation_ = false; }
  void send(int peer, const std::byte* data, std::size_t bytes);
  void receive(int peer, std::byte* to, std::size_t bytes);
  /// Frames sent to and received from the peer since the beginning, of operations: to know when a certain one is
  /// through.
  std::uint64_t sent(int peer) const { return peers_[std::size_t(peer)].sent; }
  std::uint64_t received(int peer) const { return peers_[std::size_t(peer)].received; }

  void post(Transfer& transfer);
  /// Is any message posted that is not done?
  bool has_messages() const;

  enum class Moved { kNothing, kSomething, kFailed };
  /// Moves what can be moved; kFailed: the links have been told why.
  Moved pump();
  /// Sleeps until pump may do something, the links' wake_fd rings, or the deadline.
  void sleep(Clock::time_point deadline);
  void clear();

 private:
  struct Header { std::uint64_t bytes = 0, sequence = 0, what = 0, count = 0, scale = 0; };
  struct Out { Header header; const std::byte* data = nullptr; std::size_t done = 0; Transfer* transfer = nullptr; };
  struct In { std::byte* to = nullptr; std::size_t bytes = 0; };
  struct Stash { Header header; std::unique_ptr<std::byte[]> data; bool whole = false; };
  struct Peer {
    std::deque<Out> out;
    std::deque<In> in;
    std::deque<Transfer*> recvs;
    std::list<Stash> stashed;
    std::uint64_t sent = 0, received = 0;
    std::unique_ptr<std::byte[]> buffer;      // what was read ahead: [begin, end)
    std::size_t begin = 0, end = 0;
    bool has_header = false, ended = false;
    Header header{};
    std::byte* target = nullptr;              // of the payload that comes; null: not decided yet
    std::size_t got = 0;
    Transfer* transfer = nullptr;
    Stash* stash = nullptr;
  };

  bool wants_input(const Peer& peer) const;
  bool write_some(int index);
  bool read_some(int index);
  bool take_payload(int index, int fd, bool& more);
  bool decide(int index);
  bool decide_message(int index);
  void payload_done(int index);
  bool take_stashed(int index);
  void loop_back();
  bool mismatch_of(int index, const Header& header, const Transfer& transfer);

  TcpLinks& links_;
  std::vector<Peer> peers_;
  std::vector<pollfd> polled_;
  Progress current_;
  bool in_operation_ = false, failed_ = false;
  std::size_t stashed_bytes_ = 0;
};

}  // namespace troupe::collective

// TcpLinks: the sockets between this rank and the others, and what all ranks must hear at any moment: failures, deaths,
// how far a rank has come. Between two ranks there are two stream sockets:
//
//   data      frames of operations and messages (tcp/streams.h): read and written by whoever carries out operations
//   control   ControlFrames, few and small, so that a word about a failure is never stuck behind data: a thread of its
//             own sleeps on all of them
//
// Sockets arrive when they arrive: a rank need not be there for the others to begin. Besides the ranks there may be an
// observer (number `ranks`, the founder of a group of actors), with control sockets alone.
//
//   whole --fail(), a peer's failure, a peer's end without goodbye--> failed (the first word counts and is told)
//     |--the end of a peer on another node where more are connected--> grace --they end too, or time passes--> failed
//     `--the end of a peer's data socket alone--> grace --its control socket ends, or time passes--> failed
//                                                   `--its goodbye--> whole
//
// Invariants
//   TL-1  The first failure that a rank hears of stays its failure, and is told to all peers once, as far as their
//         sockets take it; supersede() tells that the group is stale, and who hears that only notes it.
//   TL-2  A peer whose control socket ends without a goodbye is dead; an observer's end means nothing. Nothing orders
//         the two sockets of a peer: where the data socket ends first, the other one has Identity::grace to say
//         goodbye, and who does is not dead.
//   TL-3  Who is dead is named, and nobody else: peers of one node that end together are named together. For the others
//         of that node there is one moment of Identity::grace; where one of them lives, it has seen the end at once,
//         and says so.
//   TL-4  After leave() nothing of this object is called by its thread any more.
//   TL-5  On a socket that came unproven nothing but a goodbye is sent, and nothing else is taken of it, before the
//         peer's proof has come whole and was right. Another proof is a failure that names the rank; comparing takes
//         the same time wherever two proofs differ.
//   TL-6  Links without the descriptors that they need themselves have failed from their first moment.
//   TL-7  A frame that was begun reaches its peer whole, before any other: half of one would read as nonsense, and this
//         rank be taken for dead.
// Thread rule: any thread, but leave() and the destructor, which belong to the owner.
#pragma once
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collective/base/failure.h"
#include "collective/base/signature.h"
#include "core/base/fd.h"
#include "core/net/base/token.h"

namespace troupe::collective {

inline constexpr int kTcpRanksMax = 512;

enum class Channel : std::uint8_t { kData, kControl };

/// What a rank is doing: the number of its collective operation, or of the step of one that goes by steps, and what it
/// is.
struct Progress {
  std::uint64_t sequence = 0;
  Signature signature;
};

class TcpLinks : public std::enable_shared_from_this<TcpLinks> {
 public:
  struct Identity {
    int rank = 0, ranks = 1;
    std::uint64_t epoch = 1;
    std::chrono::milliseconds grace{250};  ///< how long an end waits for a goodbye, and for those of its node's others
  };
  static std::shared_ptr<TcpLinks> create(const Identity& identity) {
    return std::shared_ptr<TcpLinks>(new TcpLinks(identity));
  }
  ~TcpLinks();
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  int rank() const { return identity_.rank; }
  int ranks() const { return identity_.ranks; }
  std::uint64_t epoch() const { return identity_.epoch; }

  /// A connected socket to a peer; the second for the same place is closed.
  void arrive(int peer, Channel channel, UniqueFd fd);
  /// The same when the peer has sent this proof, which the thread waits for. TL-5.
  void arrive_unproven(int peer, Channel channel, UniqueFd fd, const net::Token::Digest& proof);
  /// The data socket to a peer; -1: not there yet.
  int data(int peer) const { return data_[std::size_t(peer)].load(std::memory_order_acquire); }

  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  std::optional<Failure> failure() const;
  void fail(const Failure& failure);
  /// A part of this group has failed (told_above). What peers have said of the group by now comes first: who failed the
  /// part because the group had failed has told the group before.
  void fail_for_part(const Failure& of_part, const std::vector<int>& members);
  /// The group was formed again or destroyed: fails with kStale, on all.
  void supersede();
  bool stale() const {
    if (stale_.load(std::memory_order_acquire)) return true;
    const auto parent = parent_.lock();
    return parent && parent->stale();
  }
  /// These links are of a part of that group, and stale with it. Before any other thread knows them.
  void follow(const std::shared_ptr<TcpLinks>& parent) { parent_ = parent; }
  /// A number for the node of each rank (TL-3). Without it each is on a node of its own.
  void know_nodes(std::vector<int> nodes);
  /// Called once, when it fails (or at once, when it has failed), on whatever thread.
  void on_failure(std::function<void(const Failure&)> action);

  /// Hears what peers have said by now, without waiting for the thread.
  void look();
  /// A data socket has ended: dead, unless the peer has said goodbye or does so within the grace (TL-2).
  void data_ended(int peer);

  /// This rank works on that; kept for whoever asks.
  void working_on(const Progress& progress);
  /// Tells all peers what this rank works on and for whom it waits there (nobody: for messages): it has waited for some
  /// time. Once for each operation, and again when it waits for others.
  void tell_progress(const std::vector<int>& awaited);
  /// This rank is through with what it works on: all hear of it where one of them waits there, or this one told that it
  /// did.
  void is_through();
  /// Whom this rank names, that waits for these in that operation and whose time is up.
  std::vector<int> to_blame(std::uint64_t sequence, const std::vector<int>& awaited) const;
  /// A frame of that operation came from the peer.
  void seen(int peer, const Progress& progress);

  /// Wakes whoever sleeps on wake_fd(): something has changed.
  void wake();
  int wake_fd() const { return wake_.get(); }
  void clear_wake();

  /// Lives as long as the links: whatever brings their sockets.
  void keep(std::shared_ptr<void> companion) { companion_ = std::move(companion); }

  /// Goodbye to all: this rank's end is no failure. Stops the thread.
  void leave();

 private:
  using RankSet = std::array<std::uint64_t, kTcpRanksMax / 64>;
  enum class Word : std::uint8_t { kFailure = 1, kProgress = 2, kGoodbye = 3 };
  struct ControlFrame {
    std::uint32_t magic = 0;
    Word word{};
    std::uint8_t reason = 0, stale = 0, reserved = 0;
    std::uint64_t sequence = 0, what = 0, count = 0, scale = 0, through = 0;
    RankSet ranks{};  // kFailure: those that are missing; kProgress: those for whom it waits
    std::array<char, 912> text{};
  };
  static_assert(sizeof(ControlFrame) == 1024);
  struct Peer {
    UniqueFd data, control;
    ControlFrame in{};
    std::size_t got = 0;
    std::string rest;                          // of a frame for which its buffer had no room (TL-7)
    bool goodbye = false, ended = false, dead = false;
    bool in_doubt = false;                     // taken for dead by its data socket, while its control socket is silent
    Progress progress;
    std::uint64_t waits_in = 0;                // the newest operation in which it told for whom it waits
    RankSet awaited{};
    std::uint64_t through = 0, heard = 0;      // of its words; the last one's place among all
  };

  struct Unproven {
    int peer = 0;
    Channel channel{};
    UniqueFd fd;
    net::Token::Digest expected{}, got{};
    std::size_t have = 0;
  };

  explicit TcpLinks(const Identity& identity);
  void loop();
  void on_event(std::uint32_t tag);
  void join(int peer, Channel channel, UniqueFd fd);
  void read_proof(std::uint32_t tag);
  void serve_control(std::size_t peer);
  void take(std::size_t peer, const ControlFrame& frame);
  void ended(std::size_t peer);
  void await_others_of(std::size_t peer);
  bool more_may_follow() const;
  void end_grace_if_over();
  void report_dead();
  int grace_left() const;
  void end_grace();
  void send_all(const ControlFrame& frame);
  void send_one(Peer& peer, const ControlFrame& frame);
  void send_rest(Peer& peer);
  void watch(const Peer& peer, std::uint32_t for_what);
  static void send_first(int socket, const ControlFrame& frame);
  static std::string_view bytes_of(const ControlFrame& frame) {
    return {reinterpret_cast<const char*>(&frame), sizeof frame};
  }
  static ControlFrame goodbye();
  void set_failure(const Failure& failure, bool stale);
  void compare(std::size_t peer);
  ControlFrame frame_of_progress() const;
  ControlFrame frame_of_failure() const;
  static RankSet set_of(const std::vector<int>& ranks);
  std::vector<int> ranks_of(const RankSet& set) const;
  void run_actions();

  std::shared_ptr<void> companion_;
  std::weak_ptr<TcpLinks> parent_;
  const Identity identity_;
  std::vector<std::atomic<int>> data_;
  std::atomic<bool> failed_{false}, stale_{false}, stopping_{false};
  mutable std::mutex mutex_;
  std::vector<Peer> peers_;                    // the ranks, then the observer
  std::map<std::uint32_t, Unproven> unproven_; // by their tag in epoll
  std::optional<Failure> failure_;
  std::vector<int> nodes_;                     // of the ranks; empty: not known
  std::optional<std::chrono::steady_clock::time_point> grace_until_;
  Progress own_;
  std::uint64_t told_ = 0, through_ = 0;
  std::uint64_t heard_ = 0, others_wait_in_ = 0;  // words of progress; the newest operation in which a peer waits
  RankSet told_awaited_{};
  std::vector<std::function<void(const Failure&)>> actions_;
  UniqueFd wake_, thread_wake_, epoll_;
  std::thread thread_;
};

}  // namespace troupe::collective

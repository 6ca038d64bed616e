// Endpoint: how a process talks to the other processes of its machine. One a process, an object like any other.
//
// A *pair* is a memfd with two rings, one a direction, made by the node daemon (create_pair) and given to both sides.
// Each process has one *doorbell* (a shared page and an eventfd). send() writes a whole message to the peer's ring, or
// keeps it in this process's memory (the outbox of that peer) while the ring is full; the receiving side hands whole
// messages to a Handler. Longer messages than a record are cut and put together again here.
//
// Who drains. All rings that lead here are read by one thread at a time, the holder of the *consumer role*. There are
// four ways to drain, all in this interface: a thread that waits for something (block), a thread that passes by
// (try_drain), the service thread (service), and whoever takes a dead peer's last messages (drain_and_close). detach,
// pause and resume hold the role for a moment, and drain nothing.
//
//      +------- block / try_drain / service take it -------+
//      |                                                   v     nothing came for `spin`
//    UNHELD: ringers write the eventfd             AWAKE: ringers do nothing <----> ASLEEP: ringers wake the futex
//      ^                                                   |     rung, notified, or deadline
//      +------ leaves, nobody waits, no attendance --------+
//                                                          |
//               leaves while others block: the role is handed to one of them (stays AWAKE)
//               leaves while the service thread attends: stays AWAKE, the service thread looks at its next tick
//
// Attendance. A thread that calls back to back leaves the role for a fraction of a microsecond between two calls. When
// a message falls into such a gap the service thread is rung once; it then does not drain at once but *attends*: it
// looks again after a grace of 50 us (a timer in service_fd, doubling to 1 ms while threads keep taking the role), and
// drains only when nobody took the role meanwhile. While it attends no ringer writes the eventfd.
//
// Thread rules. send, backlog, attached, set_begun, begun, notify: any thread, any time, also from within a handler;
// they never block. attach, detach: any thread, also from within a handler. block, try_drain, service: any thread, NOT
// from within a handler. Handler functions are called by the role's holder, one at a time in the process, with no lock
// held; they must not throw and must not block, for all messages of the process wait meanwhile.
//
// Invariants
//   NEP-1  Messages of one (sender process, receiver process) arrive whole, once, in the order in which send() returned
//          true.
//   NEP-2  No wake-up is lost: a message that is published is seen by the holder, or its holder is woken, or the
//          service thread is rung.
//   NEP-3  send() never waits for the peer. What the ring does not take is kept, in order, and counted by backlog().
//   NEP-4  Nothing that a peer writes into shared memory makes us read or write outside of it, or fail: a pair whose
//          positions or records are not possible is closed and Handler::on_broken told. (A payload lies in memory that
//          the peer can still change: decoders must read each length once.)
//   NEP-5  What a process published before it died is delivered, by drain_and_close at the latest.
//   NEP-6  While a thread is in block() there is a holder.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/result.h>
#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/net/base/frame.h"
#include "core/net/ring/begun.h"

namespace troupe::net {

class Endpoint;
class ConsumerRole;

/// What a process does with what it receives. Thread rule: see above.
class Handler {
 public:
  virtual ~Handler() = default;
  /// A whole message. `from` is the peer whose ring it came through (a daemon forwards frames of others: then
  /// header.source differs). The payload is valid, and 8-byte aligned, until this returns.
  virtual void on_message(ProcessId from, const FrameHeader& header, ByteView payload) = 0;
  /// The pair is unusable (NEP-4) and closed; the peer stays attached, sending to it fails. It is for the handler to
  /// have one of the two ended: its death detaches it.
  virtual void on_broken(ProcessId peer, const ErrorPtr& why) = 0;
};

/// What a blocked thread waits on: a flag that is set by notify and taken by block. Belongs to one thread, the one that
/// calls block with it; may be used again and again. It may be destroyed as soon as its flag was taken, even while that
/// notify still runs on another thread: whoever destroys it must have seen the notify, not only what caused it.
class Parker {
 public:
  explicit Parker(Endpoint& endpoint);
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  /// Makes the owner's block() return true, now or when it is next called. Any thread; never blocks. Setting it twice
  /// before it is taken is setting it once.
  void notify() noexcept;
  /// Is the flag set? Does not take it.
  bool notified() const noexcept { return (state_.load(std::memory_order_acquire) & kNotified) != 0; }
  /// Takes the flag back without blocking: was it set?
  bool take() noexcept { return (state_.fetch_and(~kNotified, std::memory_order_acq_rel) & kNotified) != 0; }

 private:
  friend class ConsumerRole;
  explicit Parker(ConsumerRole& role) : role_(&role) {}
  static constexpr std::uint32_t kNotified = 1, kParked = 2, kOnDoorbell = 4, kHasRole = 8;
  ConsumerRole* role_;
  std::atomic<std::uint32_t> state_{0};  // futex word of the thread that waits for the role
  const void* token_ = nullptr;          // of that thread
  Parker* next_ = nullptr;               // queue of ConsumerRole, under its mutex
  Parker* previous_ = nullptr;
  bool queued_ = false;
};

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNoDeadline = Deadline::max();

struct EndpointOptions {
  ProcessId self{};
  std::chrono::nanoseconds spin{std::chrono::microseconds(30)};  ///< how long a holder looks before it sleeps
  std::chrono::nanoseconds grace{
      std::chrono::microseconds(50)};  ///< how long the service thread leaves the role to others
};

struct PairOptions {
  std::size_t ring_bytes = 32 * 1024;  ///< each direction; a power of two from kRingMin to kRingMax (net/ring/ring.h)
};

/// One side of a pair as it comes out of the daemon's messages.
struct Attachment {
  ProcessId peer{};
  UniqueFd pair{};           ///< from create_pair; mapped and closed here
  int side = 0;              ///< 0 or 1; the peer has the other
  UniqueFd peer_doorbell{};  ///< dup of the peer's doorbell_fd(); mapped and closed here
  UniqueFd peer_event{};     ///< dup of the peer's event_fd(); kept
};

inline constexpr std::size_t kPeersMax = 4096;  ///< attached at one time

class Endpoint {
 public:
  static Result<std::unique_ptr<Endpoint>> create(EndpointOptions options);
  /// No thread may be inside, and no Parker of it be used again. Peers are detached.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  ProcessId self() const noexcept;

  // ---- descriptors
  int doorbell_fd() const noexcept;  ///< to be given to peers
  int event_fd() const noexcept;     ///< to be given to peers
  int service_fd() const noexcept;   ///< this process's service thread polls it for input, then calls service()

  // ---- peers
  /// A new pair, both rings empty. InvalidArgumentError for a bad size; ErrorCode::kUser with the errno text otherwise.
  static Result<UniqueFd> create_pair(PairOptions options);
  /// What a pair takes of memory at most.
  static std::size_t pair_bytes(PairOptions options);
  /// Begins to talk to a peer. Messages that the peer sent before are delivered. Each side of a pair is attached once
  /// in the pair's life. InvalidArgumentError when the peer is attached already, the side is wrong or the descriptors
  /// are not what they should be; Error when kPeersMax are attached.
  Status attach(Attachment attachment);
  /// Ends it: what was not delivered or sent is dropped. Does nothing when the peer is not attached. Waits until the
  /// holder of the role lets go of it, which is until a handler that runs has returned: so call it (and
  /// drain_and_close) without a lock that a handler takes.
  void detach(ProcessId peer);
  bool attached(ProcessId peer) const noexcept;
  /// For a peer that died: delivers what it had published, then detaches. Partial messages are dropped. Waits as detach
  /// does. Within a handler: for any peer but the one whose message is being handled. Returns how many were delivered.
  std::size_t drain_and_close(ProcessId peer, Handler& handler);

  // ---- sending
  /// Sends header and the concatenation of the pieces. Sets version and payload_size; source and destination as given.
  /// False when the peer is not attached or broken, or the payload is above kPayloadMax; else the message will arrive
  /// as long as the peer lives. No allocation while the ring has room. NEP-1, NEP-3.
  bool send(ProcessId peer, const FrameHeader& header, std::span<const ByteView> pieces);
  bool send(ProcessId peer, const FrameHeader& header, ByteView payload = {}) {
    return send(peer, header, {&payload, 1});
  }
  /// Bytes (headers included) that wait in this process for room in the peer's ring. 0 when not attached.
  std::size_t backlog(ProcessId peer) const noexcept;

  /// Wakes the peer whatever its doorbell says: for the daemon, after any death (the dead may have died between
  /// publishing and ringing). Two system calls.
  void ring_always(ProcessId peer) noexcept;

  // ---- call counters, readable after the peer died
  /// As receiver: notes that call number `seq` of this peer has begun. To be called before it begins, in any order of
  /// the numbers. Callers take turns.
  void set_begun(ProcessId peer, std::uint64_t seq) noexcept;
  /// As sender: the highest number that the peer noted for our calls; 0 at first and when not attached.
  std::uint64_t begun(ProcessId peer) const noexcept;
  /// As sender: which of our calls the peer noted; none at first and when not attached.
  BegunCalls begun_calls(ProcessId peer) const noexcept;

  // ---- receiving
  /// Waits until the parker is notified (true; the flag is taken) or the deadline passes (false). Meanwhile takes the
  /// consumer role when it is free and gives what comes to the handler. NEP-6.
  bool block(Parker& parker, Deadline deadline, Handler& handler);
  /// When something has come and nobody holds the role: takes it, delivers at most `budget` messages, leaves it. Else
  /// does nothing. Returns the messages delivered. Cheap (a few loads) when nothing has come.
  int try_drain(Handler& handler, int budget);
  /// Leaves the peer's messages in its ring until resume(): its sends wait in its own process, which is how a daemon
  /// stops a sender whose destination takes nothing. What is sent to the peer is not held up. Does nothing when it is
  /// not attached. Within a handler, or by a thread that consumes.
  void pause(ProcessId peer);
  void resume(ProcessId peer);
  /// To be called by the service thread when service_fd() is readable. Never blocks. One thread only.
  void service(Handler& handler);

  // ---- numbers
  struct Stats {
    std::uint64_t received = 0, polls = 0, sleeps = 0, handovers = 0, attendances = 0, service_drains = 0;
    std::uint64_t event_rings = 0, futex_rings = 0, queued = 0;  ///< queued: messages that went through an outbox
  };
  Stats stats() const noexcept;

 private:
  friend class Parker;
  struct Impl;
  explicit Endpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::net

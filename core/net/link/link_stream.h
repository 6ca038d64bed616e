// LinkStream: the state of one link, between the senders, the gRPC stream and the user's events.
//
// Thread rule: any thread; its mutex guards what is shared. No event and no function of the stream is called under the
// mutex.
//
// Invariants: LK-1, LK-2, LK-4 of net/link/link.h, NLA-1 of net/link/abi.h.
#pragma once
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/net/link/link.h"
#include "core/net/link/abi.h"
#include "core/net/link/queue.h"

namespace troupe::net {

/// Counters that all links of a hub share.
struct LinkCounters {
  std::atomic<std::uint64_t> frames_sent{0}, batches_sent{0}, bytes_sent{0}, batches_received{0}, bytes_received{0};
  std::atomic<std::uint64_t> connections_refused{0}, handshakes_failed{0};
};

class LinkStream final : public abi::Owner, public std::enable_shared_from_this<LinkStream> {
 public:
  struct Setup {
    LinkId id = 0;
    bool outgoing = false;
    bool waited_for = false;  ///< by connect(): a failure to open is its result, not an event
    std::string place;        ///< of the peer, for messages
  };
  using Judge = std::function<std::string(const abi::Hello&)>;
  using Ended = std::function<void(LinkStream&)>;

  LinkStream(Setup setup, LinkEvents& events, LinkCounters& counters, Judge judge, Ended ended);

  const Setup& setup() const { return setup_; }
  /// The hub's number of its TCP connection; 0 while there is none.
  void set_connection(std::uint64_t serial) { connection_.store(serial, std::memory_order_release); }
  std::uint64_t connection() const { return connection_.load(std::memory_order_acquire); }
  /// Before attach().
  void set_peer(const ProofPeer& peer) { peer_ = peer; }
  bool send(const FrameHeader& header, std::span<const ByteView> pieces, std::size_t payload_size);
  bool send_raw(ByteView frames);
  std::size_t backlog() const;
  /// What was sent before still goes out. True when the caller shall see to it that the link ends after kLinger.
  bool close();
  void abort(ErrorPtr why);

  /// The stream that carries it; not when it ended already (then the stream is cancelled).
  void attach(std::shared_ptr<abi::Stream> stream);
  /// It never got a stream.
  void fail(ErrorPtr why);
  bool is_open() const;
  bool is_over() const;
  /// Why abort() was called; null if it was not.
  ErrorPtr abort_reason() const;
  /// Waits for opened or failed; connect() only. The bound is the dial's own deadline.
  Status wait_until_open();

  // abi::Owner
  std::string judge(const abi::Hello& hello) override { return judge_(hello); }
  void opened(const abi::Hello& peer) override;
  void received(std::string_view frames) override;
  void written(std::string buffer) override;
  void closed(abi::Ending ending, std::string_view reason) override;

 private:
  enum class State { kConnecting, kOpen, kClosing, kClosed };
  template <class Push> bool push(std::size_t bytes, const Push& push);
  void pump(std::unique_lock<std::mutex> lock);
  Status verdict(abi::Ending ending, std::string_view reason) const;
  void end(Status why);

  const Setup setup_;
  LinkEvents& events_;
  LinkCounters& counters_;
  const Judge judge_;
  const Ended ended_;
  std::atomic<std::uint64_t> connection_{0};
  ProofPeer peer_;  ///< set before the stream begins, which orders it before opened()

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kConnecting;
  bool announced_ = false, writing_ = false, finish_sent_ = false;
  std::size_t in_flight_ = 0;
  LinkQueue queue_;
  std::shared_ptr<abi::Stream> stream_;
  ErrorPtr abort_reason_;
  std::optional<Status> outcome_;  // of a link that ended
};

}  // namespace troupe::net

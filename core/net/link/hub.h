// LinkHub: all links of a process, its listening port and the connections that are on their way to become links.
//
//   accepted socket ---> Handshakes (proofs) ---> transport (gRPC) ---> judge ---> incoming: a LinkStream
//   dial: connect and prove on the loop ---> transport ---> a LinkStream that was there from the start
//
// Thread rule: as net/link/link.h. The members below "loop's thread" belong to it; links_, identity_ and connections_
// have a mutex.
//
// Invariants
//   LH-1  A connection that has proven itself and carries no open link handshake_timeout later is cut.
//   LH-2  When a link has ended its connection is cut: none lingers without a link.
//   LH-3  A link whose peer has sent no byte for keep_alive.time + keep_alive.timeout is broken off. Pings make every
//         live peer send something at least each keep_alive.time; gRPC's own watchdog does not get through while a
//         write of it is stuck in a full socket, which is what happens when a busy link is cut (seen: a second more).
//         Time in which this process did not run itself does not count (link/silence.h).
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/net/base/handshakes.h"
#include "core/net/link/link.h"
#include "core/net/link/abi.h"
#include "core/net/base/loop.h"
#include "core/net/link/link_stream.h"
#include "core/net/link/silence.h"
#include "core/net/base/socket.h"

namespace troupe::net {

inline constexpr Duration kLookAfter = std::chrono::milliseconds(200);  ///< between two looks for silent peers

inline int to_ms(Duration span) {
  return int(std::clamp<std::int64_t>(span / std::chrono::milliseconds(1), 1, 1 << 30));
}
/// "5 s" or "4800 ms".
inline std::string seconds_text(Duration span) {
  const auto ms = span / std::chrono::milliseconds(1);
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

class LinkHub final : public Links, private abi::Acceptor {
 public:
  LinkHub(LinkEvents& events, const LinksOptions& options, std::unique_ptr<SocketLoop> loop);
  ~LinkHub() override;
  /// Second half of construction. Null: the library speaks another version of link/abi.h.
  bool start(abi::Factory factory);

  void identify(LinkIdentity identity) override;
  Result<int> listen(const ListenOptions& options) override;
  Result<LinkId> dial(const ConnectOptions& options) override;
  Result<LinkId> connect(const ConnectOptions& options) override;
  bool send(LinkId link, const FrameHeader& header, std::span<const ByteView> pieces) override;
  bool send_raw(LinkId link, ByteView frames) override;
  std::size_t backlog(LinkId link) const override;
  void close(LinkId link) override;
  void abort(LinkId link, std::string reason) override;
  void shutdown() override;
  Stats stats() const override;

 private:
  struct Connection {
    int descriptor = -1;     // the transport's
    UniqueFd watch;          // our duplicate: tells when the transport has closed, and lets us cut it
    SocketLoop::TimerId handshake{};
    bool incoming = false;
    bool linked = false;     // it belongs to a link
    ProofPeer peer;
    std::weak_ptr<LinkStream> link;
  };
  struct Dial {
    std::shared_ptr<LinkStream> link;
    SocketAddress address;
    ConnectOptions options;
    UniqueFd socket;
    std::optional<ProofExchange> proof;
    SocketLoop::TimerId deadline{}, again{};
    Duration pause = std::chrono::milliseconds(10);
    int last_error = 0;
    bool handed_over = false;
  };

  // abi::Acceptor
  std::string judge(const abi::Hello& hello) override;
  abi::Hello own_hello() override;
  std::shared_ptr<abi::Owner> incoming(std::shared_ptr<abi::Stream> stream, int descriptor) override;

  std::shared_ptr<LinkStream> find(LinkId link) const;
  std::shared_ptr<LinkStream> make_link(LinkStream::Setup setup);
  Result<std::shared_ptr<LinkStream>> start_dial(const ConnectOptions& options, bool waited_for);
  ProofSelf proof_self() const;
  bool room_for_incoming() const;
  void link_ended(LinkStream& link);
  void forget_link(LinkStream& link);

  // ---- the loop's thread
  void admitted(UniqueFd socket, const ProofPeer& peer);
  std::uint64_t register_connection(int descriptor, UniqueFd watch, bool incoming);
  void cut(std::uint64_t serial);
  void look_for_silence();
  void try_dial(LinkId id);
  void dial_attempt_failed(LinkId id, int error);
  void dial_connected(LinkId id);
  void dial_readable(LinkId id);
  void dial_proven(LinkId id);
  void dial_deadline(LinkId id);
  void end_dial(LinkId id, const ErrorPtr& why);

  LinkEvents& events_;
  const LinksOptions options_;
  LinkCounters counters_;
  const std::uint64_t descriptors_max_;
  std::size_t incoming_max_ = 0;                                // set by listen(), before the first connection

  mutable std::shared_mutex links_mutex_;
  std::condition_variable_any links_gone_;
  std::unordered_map<LinkId, std::shared_ptr<LinkStream>> links_;  // under links_mutex_
  LinkId next_link_ = 1;                                        // under links_mutex_
  bool stopping_ = false;                                       // under links_mutex_
  bool listening_ = false;                                      // under links_mutex_

  mutable std::mutex identity_mutex_;
  LinkIdentity identity_;                                       // under identity_mutex_

  mutable std::mutex connections_mutex_;
  std::unordered_map<std::uint64_t, Connection> connections_;   // under connections_mutex_; changed on the loop
  std::unordered_map<int, std::uint64_t> serial_of_;            // descriptor to serial; under connections_mutex_
  std::size_t incoming_ = 0;                                    // under connections_mutex_
  std::uint64_t next_serial_ = 1;                               // loop's thread
  bool looking_ = false;                                        // loop's thread: look_for_silence is due
  SilenceClock silence_{kLookAfter};                            // loop's thread

  std::unordered_map<LinkId, Dial> dials_;                      // loop's thread
  std::unique_ptr<Handshakes> handshakes_;                        // loop's thread
  std::unique_ptr<Listener> listener_;                          // loop's thread

  std::unique_ptr<abi::Transport> transport_;
  std::unique_ptr<SocketLoop> loop_;                            // last: its handlers use all of the above
};

}  // namespace troupe::net

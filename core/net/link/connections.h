// LinkConnections: the TCP connections of a process that have proven themselves, until they are cut.
//
//   admitted (proven, incoming) ---> UNLINKED --claim: its first stream--> LINKED --cut, silent--> gone
//   dialled -------------------------------------------------------------> LINKED      ^
//                                    UNLINKED --handshake_timeout----------------------+
//
// The descriptors are the transport's; a duplicate of each is kept here, which tells when the transport has closed it
// and lets it be cut.
//
// Invariants
//   LH-1  A connection that has proven itself and carries no open link handshake_timeout later is cut.
//   LH-3  A link whose peer has sent no byte for keep_alive.time + keep_alive.timeout is broken off. Pings make every
//         live peer send something at least each keep_alive.time; gRPC's own watchdog does not get through while a
//         write of it is stuck in a full socket, which is what happens when a busy link is cut (seen: a second more).
//         Time in which this process did not run itself does not count (link/silence.h).
// Thread rule: the loop's thread, but for limit, has_room and claim.
#pragma once
#include <memory>
#include <mutex>
#include <unordered_map>

#include "core/net/base/loop.h"
#include "core/net/link/link.h"
#include "core/net/link/link_stream.h"
#include "core/net/link/silence.h"

namespace troupe::net {

inline constexpr Duration kLookAfter = std::chrono::milliseconds(200);  ///< between two looks for silent peers

class LinkConnections {
 public:
  LinkConnections(SocketLoop& loop, const LinksOptions& options, LinkCounters& counters)
      : loop_(loop), options_(options), counters_(counters) {}

  /// So many incoming ones at most. Before the first connection.
  void limit(std::size_t incoming_max) { incoming_max_ = incoming_max; }
  /// For one more incoming connection. Any thread.
  bool has_room() const;
  /// An accepted connection has proven itself. False when there is no room for it any more.
  bool admit(int descriptor, const ProofPeer& peer);
  /// A connection that we made is this link's.
  void dialled(int descriptor, const std::shared_ptr<LinkStream>& link);
  /// An incoming connection carries that link from now on; false when it was cut meanwhile. Any thread.
  bool claim(int descriptor, const std::shared_ptr<LinkStream>& link);
  /// Nothing happens when it was cut already.
  void cut(std::uint64_t serial);

 private:
  struct Connection {
    int descriptor = -1;     // the transport's
    UniqueFd watch;          // our duplicate
    SocketLoop::TimerId handshake{};
    bool incoming = false;
    bool linked = false;     // it belongs to a link
    ProofPeer peer;
    std::weak_ptr<LinkStream> link;
  };
  std::uint64_t add(Connection connection);
  void cut_if_unlinked(std::uint64_t serial);
  void look_for_silence();

  SocketLoop& loop_;
  const LinksOptions& options_;
  LinkCounters& counters_;
  std::size_t incoming_max_ = 0;

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, Connection> connections_;  // under mutex_; changed on the loop
  std::unordered_map<int, std::uint64_t> serial_of_;           // descriptor to serial; under mutex_
  std::size_t incoming_ = 0;                                   // under mutex_
  std::uint64_t next_serial_ = 1;                              // loop's thread
  bool looking_ = false;                                       // loop's thread: look_for_silence is due
  SilenceClock silence_{kLookAfter};                           // loop's thread
};

}  // namespace troupe::net

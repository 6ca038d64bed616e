// LinkDialer: from an address to a connection that has proven itself: connects, tries again while nobody is there, and
// proves. What comes out is the transport's (LinkHub).
//
//   start --> CONNECTING --connected--> PROVING --proven--> HANDED OVER --its deadline: still not open--> aborted
//               |    ^ nobody there,      |
//               |----+ with retry         |
//               +----------refused, deadline, end-----------> its link fails
//
// Thread rule: the loop's thread.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "core/net/base/loop.h"
#include "core/net/base/proof.h"
#include "core/net/base/socket.h"
#include "core/net/link/link.h"
#include "core/net/link/link_stream.h"

namespace troupe::net {

class LinkDialer {
 public:
  struct Options {
    std::function<ProofSelf()> self;
    /// The peer has proven itself, and has our proof: the socket is the link's.
    std::function<void(const std::shared_ptr<LinkStream>& link, UniqueFd socket)> proven;
    Duration silence_max{};  ///< how long what was sent may stay unacknowledged
    LinkCounters* counters = nullptr;
  };

  LinkDialer(SocketLoop& loop, Options options) : loop_(loop), options_(std::move(options)) {}

  void start(std::shared_ptr<LinkStream> link, const SocketAddress& address, const ConnectOptions& options);
  /// Ends the dial of this link, if there is one; the link fails, unless it was handed over.
  void end(LinkId id, const ErrorPtr& why);

 private:
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
  void attempt(LinkId id);
  void attempt_failed(LinkId id, int error);
  void connected(LinkId id);
  void readable(LinkId id);
  void proven(LinkId id);
  void deadline(LinkId id);

  SocketLoop& loop_;
  const Options options_;
  std::unordered_map<LinkId, Dial> dials_;
};

}  // namespace troupe::net

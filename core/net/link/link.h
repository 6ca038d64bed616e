// Links: ordered streams of frames between the daemons of two nodes, and between a daemon and the head.
//
// One link is one TCP connection with one gRPC stream. Sending is coalesced: a frame goes out at once while nothing is
// being written, and while a write is under way the frames gather to a batch of up to kBatchTarget bytes. gRPC itself
// sits in libtroupe_rpc, which open_links() opens; connections are made and accepted here, with a cap and with a
// reserve for the case that descriptors run out.
//
//              dial / connect          TCP is up           both proofs, both hellos checked
//   (nothing) ----------------> DIALING ---------> PROVING, GREETING ----------> OPEN --- close() ---> CLOSING
//                                  |                  |        on_open             |  what is queued      |
//                                  | refused,         | wrong token, foreign       |  is still sent       | sent, or
//                                  kLinger
//                                  | deadline         | cluster, deadline          | broken               v  is over
//                                  +------------------+------------------------> CLOSED  (on_closed)  <---+
//
// Thread rule: every function of Links may be called from any thread; connect() and shutdown() wait and must not be
// called from within a LinkEvents function, all others never block. LinkEvents functions are called by threads of the
// transport, for one link one at a time, for several links at the same time; they must not block and not throw.
//
// Invariants
//   LK-1  Frames of one link arrive whole, once, in the order in which send() returned true.
//   LK-2  on_open comes before any on_batch of a link, on_closed last and once. A dialed link gets on_closed also when
//         it never opened; a link that connect() could not open gets neither.
//   LK-3  A link opens only after both sides have proven to know the same token (net/base/proof.h: the token itself
//         never travels) and named the same protocol and cluster (and build, where both name one). Whatever fails that
//         is refused with UnauthenticatedError and its reason, before any frame of it is read.
//   LK-4  send() never waits for the peer; what is not on its way is counted by backlog().
//   LK-5  A peer that is gone is seen: a dead process at once, a hung one or a cut network within keep_alive.time +
//         keep_alive.timeout. A pause shorter than keep_alive.timeout breaks nothing.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/net/base/frame.h"
#include "core/net/base/proof.h"
#include "core/net/base/token.h"
#include <troupe/duration.h>
#include <troupe/result.h>

namespace troupe::net {

using LinkId = std::uint64_t;  ///< from 1, never reused within one Links

inline constexpr std::uint32_t kLinkProtocol = 2;  ///< 2: a session's Begins count
inline constexpr std::size_t kBatchTarget = 256 * 1024;  ///< a batch closes at this size; a longer frame goes alone
inline constexpr Duration kLinger = std::chrono::seconds(1);

/// The other side of a link.
struct LinkPeer {
  std::string_view hello;   ///< its LinkIdentity::hello; valid until the call returns
  bool outgoing = false;    ///< dialled by this side
  ProofPeer proven = {};    ///< role, incarnation and epoch, as it has proven them
};

/// What happens to links. Thread rule: see above.
class LinkEvents {
 public:
  virtual ~LinkEvents() = default;
  virtual void on_open(LinkId link, const LinkPeer& peer) = 0;
  /// Whole frames, one after the other: FrameHeader and payload each. Not aligned; valid until this returns.
  virtual void on_batch(LinkId link, ByteView frames) = 0;
  /// ok: closed in order, by either side. UnauthenticatedError: refused. NodeDiedError: broken. Before it opened also
  /// NotFoundError (nobody listens there) and DeadlineExceededError.
  virtual void on_closed(LinkId link, const Status& why) = 0;
};

/// What one side shows to the other.
struct LinkIdentity {
  Token token;                   ///< must be set
  std::string cluster_id = {};   ///< empty: not known yet, fits any
  std::string build = {};        ///< digest of the build; empty: not compared
  std::string hello = {};        ///< for the peer's on_open; opaque here, at most 64 KiB
  ProofRole role = ProofRole::kNode;
  std::uint64_t incarnation = 0; ///< of this process; 0: drawn once, when the links are opened
  std::uint64_t epoch = 0;       ///< a head's
};

/// Keep-alive of both sides. The sum is the bound of LK-5; with the defaults a black-out of 3 s breaks nothing.
struct KeepAlive {
  Duration time = std::chrono::milliseconds(700);
  Duration timeout = std::chrono::milliseconds(4100);
};

struct LinksOptions {
  LinkIdentity identity;
  std::string library = {};                            ///< path of libtroupe_rpc.so; empty: searched
  KeepAlive keep_alive = {};
  Duration handshake_timeout = std::chrono::seconds(5);  ///< for those who connect to us
};

struct ListenOptions {
  std::string address = "127.0.0.1";
  int port = 0;                                        ///< 0: any
  int connections_max = 1024;                          ///< proven ones; at most a quarter of our descriptors
  int unproven_max = 64;                               ///< nothing proven yet (net/base/handshakes.h)
};

struct ConnectOptions {
  std::string address;                                 ///< HOST:PORT
  Duration timeout = std::chrono::seconds(5);          ///< until the link is open
  bool retry = false;                                  ///< nobody listens yet: try again until the timeout
  ProofTarget expected = {};                           ///< whom the link is meant for; anybody else is refused
};

class Links {
 public:
  virtual ~Links() = default;

  /// Replaces the identity, for handshakes that begin from now on (a daemon learns its node number after it listens).
  virtual void identify(LinkIdentity identity) = 0;
  /// Begins to accept; returns the port. Once. InvalidArgumentError when the port is in use or the address is not ours.
  virtual Result<int> listen(const ListenOptions& options) = 0;
  /// Begins to connect and returns at once; on_open or on_closed follows. send() is allowed at once. A host name (not a
  /// number) is resolved on the calling thread. InvalidArgumentError for a malformed address.
  virtual Result<LinkId> dial(const ConnectOptions& options) = 0;
  /// The same, and waits until the link is open (on_open was called) or failed.
  virtual Result<LinkId> connect(const ConnectOptions& options) = 0;

  /// Sends header and the concatenation of the pieces as one frame; sets version and payload_size. False when the link
  /// is closing or closed, or the payload is above kPayloadMax. LK-1, LK-4.
  virtual bool send(LinkId link, const FrameHeader& header, std::span<const ByteView> pieces) = 0;
  bool send(LinkId link, const FrameHeader& header, ByteView payload = {}) { return send(link, header, {&payload, 1}); }
  /// Sends whole frames that are laid out already (forwarded ones); the caller vouches for their form.
  virtual bool send_raw(LinkId link, ByteView frames) = 0;
  /// Bytes accepted by send() whose write has not ended; 0 for a link that is closed.
  virtual std::size_t backlog(LinkId link) const = 0;

  /// Ends the link after what was sent before; after kLinger in any case. on_closed follows.
  virtual void close(LinkId link) = 0;
  /// Ends the link now; what is queued is lost. on_closed follows.
  virtual void abort(LinkId link, std::string reason) = 0;
  /// Closes all links and the port, waits until all is over (at most about kLinger). No event comes afterwards.
  /// Idempotent.
  virtual void shutdown() = 0;

  struct Stats {
    std::uint64_t frames_sent = 0, batches_sent = 0, bytes_sent = 0, batches_received = 0, bytes_received = 0;
    std::uint64_t connections_refused = 0, handshakes_failed = 0;
  };
  virtual Stats stats() const = 0;
};

/// Opens libtroupe_rpc (the given path, else where library.h says) and makes a Links. `events` must outlive it.
/// RuntimeEnvError names what was tried. The process must not fork() any more without exec: gRPC's threads and locks do
/// not survive it.
Result<std::unique_ptr<Links>> open_links(LinkEvents& events, const LinksOptions& options);

}  // namespace troupe::net

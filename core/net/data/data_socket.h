// Data sockets: the bytes of buffers from one node's store to another's, over plain TCP beside the links.
//
// DataServer listens and sends straight out of the arena; DataClient receives straight into the place where the bytes
// shall lie. Each chunk carries an xxh3 checksum that is verified on arrival. The bytes on the wire are in
// net/data/format.h.
//
// Thread rule: all functions from any thread, none blocks but stop() and the destructors (which wait for the I/O
// threads). Source, HandOver and DoneFunction are called by I/O threads and must not block or throw; they may call
// fetch().
//
// Invariants
//   NDS-1  Only a peer that proves to know the cluster token gets a byte of a buffer, and only from one are bytes
//          accepted.
//   NDS-2  `done` is called exactly once for each fetch, at its deadline at the latest; afterwards nobody writes to
//          `into`.
//   NDS-3  done(ok) means that every byte of `into` was received and its checksum held.
//   NDS-4  A buffer stays pinned (PinnedBytes::keep) until its last byte is with the kernel or the connection is gone.
//   NDS-5  Whatever a peer sends or does not send, the other side neither fails, nor hangs, nor allocates by its word.
//   NDS-6  A client closes a connection that has carried nothing for DataClientOptions::idle_max: its place at the
//          peer's port (connections_max) is another's to take.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/net/base/token.h"
#include <troupe/duration.h>
#include <troupe/result.h>

namespace troupe::net {

/// A buffer of a store, named as in wire::BufferDesc.
struct BufferKey {
  std::uint32_t node = 0, slot = 0, generation = 0;
  bool operator==(const BufferKey&) const = default;
};

/// Bytes that stay where they are while `keep` lives.
struct PinnedBytes {
  ByteView bytes;
  std::shared_ptr<const void> keep;
};

/// Where a server finds buffers. Thread rule: see above.
class DataSource {
 public:
  virtual ~DataSource() = default;
  /// The error (NotFoundError, ObjectLostError, ...) is sent to the client and is its result.
  virtual Result<PinnedBytes> open(const BufferKey& key) = 0;
};

struct DataServerOptions {
  Token token;
  std::string address = "127.0.0.1";
  int port = 0;
  std::uint64_t incarnation = 0;                         ///< of this process; 0: drawn
  std::string also_reached_at = {};                      ///< by a translated address (net/base/proof.h)
  int connections_max = 512;                             ///< proven ones; at most a quarter of our descriptors
  int unproven_max = 64;                                 ///< net/base/handshakes.h
  int io_threads = 2;
  std::size_t chunk_bytes = 256 * 1024;                  ///< at most kDataChunkMax
  Duration handshake_timeout = std::chrono::seconds(5);
  Duration stall_timeout = std::chrono::seconds(10);     ///< a client that takes no byte for that long is cut
  /// A connection of another purpose (collectives), and the body of its hello; judges the key in it. The
  /// descriptor is non-blocking; what the client sent after the body is still in it. Empty: refused.
  std::function<void(UniqueFd connection, ByteView body)> hand_over = {};
};

class DataServer {
 public:
  /// `source` must outlive it. InvalidArgumentError when the port is in use or the address is not ours.
  static Result<std::unique_ptr<DataServer>> open(DataSource& source, DataServerOptions options);
  virtual ~DataServer() = default;
  virtual int port() const = 0;
  /// Cuts all connections; no call of source or hand_over runs afterwards. Idempotent.
  virtual void stop() = 0;

  struct Stats { std::uint64_t connections = 0, refused = 0, handshakes_failed = 0, requests = 0, bytes_sent = 0; };
  virtual Stats stats() const = 0;
};

struct DataClientOptions {
  Token token;
  std::uint64_t incarnation = 0;                         ///< of this process; 0: drawn
  int io_threads = 2;
  int connections_per_address = 4;                       ///< of one I/O thread; more requests wait for their turn
  std::size_t split_bytes = 8u << 20;                    ///< such parts go over connections of their own
  /// NDS-6. A connection anew costs a few round trips, nothing beside this; but a port has 512 places and one peer
  /// takes up to io_threads * connections_per_address of them, so 64 peers that keep theirs for good lock out all
  /// others.
  Duration idle_max = std::chrono::seconds(10);
};

using DoneFunction = std::function<void(const Status&)>;

struct Fetch {
  std::string address;                                   ///< HOST:PORT of the data port; names are resolved here
  BufferKey key;
  std::span<std::byte> into;                             ///< of the buffer's whole size
  std::chrono::steady_clock::time_point deadline;
  /// Not a byte from that address for so long, nor a connection made: DeadlineExceededError. A peer whose process is
  /// stopped still acknowledges what TCP sends it, so only the bytes tell.
  Duration stall = std::chrono::seconds(5);
};

class DataClient {
 public:
  static Result<std::unique_ptr<DataClient>> open(DataClientOptions options);
  virtual ~DataClient() = default;
  /// Errors, all by way of done: what the source said (NotFoundError); ObjectLostError when the buffer has another
  /// size; NodeDiedError when the peer cannot be reached or hung up, which is no proof that it is dead: its port may be
  /// full, or this process out of descriptors; UnauthenticatedError when it does not know the
  /// token; SerializationError for a wrong checksum or bytes out of place; DeadlineExceededError; CancelledError by
  /// stop().
  virtual void fetch(Fetch fetch, DoneFunction done) = 0;
  /// Ends all fetches with CancelledError. Idempotent.
  virtual void stop() = 0;

  struct Stats { std::uint64_t connections_made = 0, fetches = 0, bytes_received = 0, checksum_failures = 0; };
  virtual Stats stats() const = 0;
};

/// Connects to a data port with a HandOverHeader and `body` (at most HandOverHeader::kBodyMax bytes), for a
/// collective's rank. Waits until the deadline at most. The descriptor that comes back is blocking, its next bytes are
/// the caller's. Errors: InvalidArgumentError (address, size of the body); plain Error when there is no descriptor for
/// it here; DeadlineExceededError; NodeDiedError when the port cannot be reached or hangs up, which is no proof that
/// its node is dead (it may be full).
Result<UniqueFd> dial_hand_over(const std::string& address, ByteView body,
                                std::chrono::steady_clock::time_point deadline);

}  // namespace troupe::net

// Handshakes: accepted connections until both sides have proven to know the token (proof.h); what has proven itself is
// passed on, everything else is closed. It is all that a stranger can reach on a port.
//
//   accepted --hello, welcome, answer--> admitted(socket, peer)
//      |---- hand-over header, body ---> handed_over(socket, body)   where the port takes such (data/format.h)
//      `---- wrong proof, hang-up, deadline, displaced by a newcomer --> closed, counted
//
// Thread rule: everything on the thread of the SocketLoop, callbacks included.
//
// Invariants
//   HK-1  At most `unproven_max` connections wait here; the newcomer above that displaces the one that has waited
//         longest of the source of which most wait (SRC-1). They take none of the places of connections that are
//         proven, so strangers cannot keep members out by holding on, nor by coming again and again from where they
//         are.
//   HK-2  A connection that is not through after `timeout` is closed.
//   HK-3  No more bytes are read of a connection than the messages of proof.h (or a hand-over's header and body) have,
//         and no memory is taken by a stranger's word.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/net/base/loop.h"
#include "core/net/base/proof.h"
#include "core/net/base/source.h"
#include <troupe/duration.h>

namespace troupe::net {

/// The header of a connection that proves itself by the key in its body, not by the cluster token.
struct HandOverHeader {
  std::uint32_t magic = kMagic;
  std::uint16_t version = 1;
  std::uint16_t reserved = 0;
  std::uint32_t body_size = 0, reserved2 = 0;
  static constexpr std::uint32_t kMagic = 0x31484f54;  // "TOH1"
  static constexpr std::uint32_t kBodyMax = 1024;
};
static_assert(sizeof(HandOverHeader) == 16 && sizeof(HandOverHeader) < sizeof(ProofHello));

class Handshakes {
 public:
  struct Options {
    std::function<ProofSelf()> self;                        ///< as it is now: a daemon learns its cluster late
    std::string also_reached_at = {};                       ///< see ProofExchange::listen
    std::size_t unproven_max = 64;
    Duration timeout = std::chrono::seconds(5);
    std::atomic<std::uint64_t>* failed = nullptr;           ///< counts those that were closed
    std::function<void(UniqueFd socket, const ProofPeer& peer)> admitted;
    std::function<void(UniqueFd socket, std::vector<std::byte> body)> handed_over = {};  ///< empty: refused
  };
  Handshakes(SocketLoop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
  ~Handshakes();
  Handshakes(const Handshakes&) = delete;
  Handshakes& operator=(const Handshakes&) = delete;

  /// A connected, non-blocking socket.
  void add(UniqueFd socket);
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Newcomer {
    Newcomer(UniqueFd fd, ProofExchange exchange)
        : socket(std::move(fd)), source(source_of(socket.get())), proof(std::move(exchange)) {}
    UniqueFd socket;
    Source source{};
    ProofExchange proof;
    SocketLoop::TimerId deadline{};
    std::vector<std::byte> first;  ///< the header, until it tells what this is; then a hand-over's body
    std::size_t body_size = 0;     ///< of a hand-over; 0: a proof
    bool header_read = false;
  };
  enum class Progress { kAgain, kWait, kClose, kAdmit, kHandOver };
  void on_readable(std::uint64_t id);
  Progress step(Newcomer& newcomer);
  Progress take_header(Newcomer& newcomer);
  Progress feed(Newcomer& newcomer, ByteView bytes);
  Newcomer remove(std::uint64_t id);
  void refuse(std::uint64_t id);
  void make_room();

  SocketLoop& loop_;
  Options options_;
  std::map<std::uint64_t, Newcomer> waiting_;  ///< oldest first
  std::uint64_t next_id_ = 1;
};

}  // namespace troupe::net

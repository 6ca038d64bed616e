// PacketQueue: the sending side of a non-blocking bootstrap socket: what the socket does not take waits, in order.
//
// Thread rule: one thread at a time.
#pragma once
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/boot/boot_socket.h"

namespace troupe::node {

/// What became of a packet: sent, or not taken now (kFull on non-blocking sockets only).
enum class Sent { kYes, kFull, kTooManyInFlight };
/// send_packet, with the reason. NodeDiedError: the other end is gone. Another error: these descriptors or this payload
/// cannot be sent.
Result<Sent> try_send_packet(int fd, wire::BootKind kind, ByteView payload, std::span<const int> fds);

/// The daemon's side of one socket, non-blocking: what the socket does not take waits here, in order.
class PacketQueue {
 public:
  enum class Flushed {
    kAll,              ///< nothing waits
    kFull,             ///< the socket is full: flush when it is writable
    /// the kernel holds as many descriptors on their way as it allows; no event tells when it takes more
    kTooManyInFlight,
    /// this packet cannot be sent (problem()): everything that waits is dropped, the channel is useless
    kFailed,
  };
  explicit PacketQueue(UniqueFd fd);
  int fd() const { return fd_.get(); }
  /// Queues or sends.
  Flushed send(wire::BootKind kind, std::vector<std::byte> payload, std::vector<UniqueFd> fds = {});
  Flushed flush();
  const std::string& problem() const { return problem_; }
  Result<Received> receive() { return receive_packet(fd_.get()); }

 private:
  UniqueFd fd_;
  std::deque<BootPacket> queue_;
  std::string problem_;
};

}  // namespace troupe::node

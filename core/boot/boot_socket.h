// The bootstrap socket: packets between a process and its daemon, or a daemon and a launcher (wire/messages.h,
// BootKind).
//
// A packet is a u32 BootKind and an encoded struct, with descriptors beside it. One above kPacketInline bytes (an Image
// with a long environment) travels in a memfd, which then is the first descriptor and kInMemfd is set in the kind:
// senders and receivers of this file see no difference.
//
// Thread rule: one thread at a time for each socket and direction.
//
// Invariants
//   BS-1  What arrives is a whole packet that was sent, or an error: truncated packets and descriptors are errors, and
//         every descriptor that arrived is closed by its UniqueFd.
//   BS-2  All descriptors are close-on-exec.
//   BS-3  A receive that brought nothing owns no descriptor: a number of an earlier packet is never closed twice.
#pragma once
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/net/base/frame.h"
#include "core/wire/codec.h"
#include "core/wire/messages.h"
#include <troupe/result.h>

namespace troupe::node {

inline constexpr std::size_t kPacketInline = 32 * 1024;
inline constexpr std::size_t kPacketMax = std::size_t{16} << 20;
inline constexpr std::uint32_t kInMemfd = 1u << 31;
inline constexpr int kPacketFdsMax = 32;

struct BootPacket {
  wire::BootKind kind{};
  std::vector<std::byte> payload;
  std::vector<UniqueFd> fds;
};

/// What a receive found.
struct Received {
  enum class State { kPacket, kNothing, kClosed } state = State::kNothing;
  BootPacket packet;
};

/// Connects to a daemon's socket. Errors: NotFoundError (nobody listens), InvalidArgumentError (path too long, foreign
/// owner).
Result<UniqueFd> connect_boot_socket(const std::string& path);
/// Listens. The path is at most 107 bytes; an old socket file is replaced (the caller holds the session's lock).
Result<UniqueFd> listen_boot_socket(const std::string& path);
/// A connected pair, both ends blocking.
Result<std::pair<UniqueFd, UniqueFd>> boot_socket_pair();

struct Peer { int pid = 0; unsigned uid = 0; };
Result<Peer> peer_of(int fd);

/// Sends one packet. false: the socket is full (non-blocking sockets only). NodeDiedError: the other end is gone.
Result<bool> send_packet(int fd, wire::BootKind kind, ByteView payload, std::span<const int> fds);
template <class M>
Result<bool> send_message(int fd, wire::BootKind kind, const M& message, std::initializer_list<int> fds = {}) {
  return send_packet(fd, kind, wire::encode_message(message), {fds.begin(), fds.size()});
}
/// Receives one packet; blocks as the socket does.
Result<Received> receive_packet(int fd);
/// The same with a deadline: GetTimeoutError when it passes, NodeDiedError when the other end is gone.
Result<BootPacket> wait_packet(int fd, Duration timeout);

/// The daemon's side of one socket, non-blocking: what the socket does not take waits here, in order.
class BootChannel {
 public:
  explicit BootChannel(UniqueFd fd);
  int fd() const { return fd_.get(); }
  /// Queues or sends. False: the other end is gone (its closing will be seen by receive).
  bool send(wire::BootKind kind, std::vector<std::byte> payload, std::vector<UniqueFd> fds = {});
  template <class M> bool send_message(wire::BootKind kind, const M& message, std::vector<UniqueFd> fds = {}) {
    return send(kind, wire::encode_message(message), std::move(fds));
  }
  bool wants_write() const { return !queue_.empty(); }
  bool flush();
  Result<Received> receive() { return receive_packet(fd_.get()); }

 private:
  UniqueFd fd_;
  std::deque<BootPacket> queue_;
};

}  // namespace troupe::node

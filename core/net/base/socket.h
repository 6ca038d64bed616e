// TCP sockets of the daemons: addresses, listening, accepting with a cap, dialing. Used by links and data sockets
// alike.
//
// Thread rule: the functions are free of state. A Listener belongs to the thread of its SocketLoop.
//
// Invariants
//   NLS-1  A port has one listener: SO_REUSEPORT is never set, a port in use is an InvalidArgumentError that names it.
//   NLS-2  Running out of descriptors never ends the listening: a reserved descriptor is given up to take and refuse
//          the newcomer, and accepting goes on when there is room again.
//   NLS-3  While `has_room` says no, connections are closed as soon as they are accepted.
#pragma once
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/fd.h"
#include "core/net/base/loop.h"
#include <troupe/result.h>

namespace troupe::net {

/// An address as the kernel takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
};

/// "HOST:PORT" or "[V6]:PORT". Numeric hosts are parsed; names are resolved, which may wait for a name server.
Result<SocketAddress> parse_address(std::string_view text);
/// "HOST:PORT" of a host and a port; an IPv6 host gets its brackets.
std::string format_address(std::string_view host, int port);

/// A bound, listening, non-blocking socket. NLS-1.
Result<UniqueFd> listen_tcp(const std::string& host, int port);
Result<int> local_port(int fd);
/// The two ends of a connection as numeric HOST:PORT (an IPv4 address within IPv6 as IPv4); empty when it has ended.
std::string local_address(int fd);
std::string peer_address(int fd);
/// A non-blocking socket whose connect() has begun; wait for EPOLLOUT, then ask connect_error. `error` is the errno of
/// what failed at once, else 0.
struct Connecting { UniqueFd fd; int error = 0; };
Connecting begin_connect(const SocketAddress& address);
/// 0, or the errno with which the connect failed.
int connect_error(int fd);

/// No delay; retransmissions at most a second apart (where the kernel knows how), so that after a short black-out the
/// connection goes on when the network does; `user_timeout_ms`: how long sent bytes may stay unacknowledged;
/// `probe`: let the kernel look after a quiet peer every 10 s.
struct TcpOptions { int user_timeout_ms = 0; bool probe = false; };
void set_tcp_options(int fd, TcpOptions options);

/// How long ago the last bytes came from the peer; zero when that cannot be told.
std::chrono::milliseconds silence_of(int fd);

/// Raises the soft limit of open files to the hard one, at most `wanted`. Returns the limit that holds now.
std::uint64_t raise_descriptor_limit(std::uint64_t wanted = 1 << 16);

/// Accepts on a loop. NLS-2, NLS-3.
class Listener {
 public:
  using Accepted = std::function<void(UniqueFd connection)>;
  struct Options {
    std::function<bool()> has_room;  ///< may another connection be taken now?
    std::atomic<std::uint64_t>* refused = nullptr;  ///< counts those that were closed at once
  };

  /// On the loop's thread.
  Listener(SocketLoop& loop, UniqueFd socket, Options options, Accepted accepted);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

 private:
  void on_readable();
  void count_refused();
  bool refuse_without_descriptor();
  void pause();

  SocketLoop& loop_;
  UniqueFd socket_, reserve_;
  Options options_;
  Accepted accepted_;
  SocketLoop::TimerId resume_{};
  bool paused_ = false;
};

}  // namespace troupe::net

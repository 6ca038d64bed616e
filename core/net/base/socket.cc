#include "core/net/base/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace troupe::net {
namespace {

struct AddressInfo {
  addrinfo* list = nullptr;
  ~AddressInfo() {
    if (list) ::freeaddrinfo(list);
  }
};

Result<SocketAddress> resolve(const std::string& host, int port, bool passive) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST | (passive ? AI_PASSIVE : 0);
  AddressInfo info;
  const std::string service = std::to_string(port);
  int rc = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &info.list);
  if (rc == EAI_NONAME) {
    hints.ai_flags &= ~AI_NUMERICHOST;
    rc = ::getaddrinfo(host.c_str(), service.c_str(), &hints, &info.list);
  }
  if (rc != 0) return InvalidArgumentError("cannot resolve host '" + host + "': " + ::gai_strerror(rc));
  SocketAddress address;
  std::memcpy(&address.storage, info.list->ai_addr, info.list->ai_addrlen);
  address.size = info.list->ai_addrlen;
  return address;
}

std::string errno_text(int number) { return std::strerror(number); }

}  // namespace

Result<SocketAddress> parse_address(std::string_view text) {
  const auto bad = [&](const char* why) {
    return InvalidArgumentError("bad address '" + std::string(text.substr(0, 200)) + "': " + why +
                                " (expected HOST:PORT)");
  };
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return bad("no host or no port");
  std::string_view host = text.substr(0, colon), digits = text.substr(colon + 1);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port < 1 || port > 65535)
    return bad("port is not 1 to 65535");
  if (host.front() == '[') {
    if (host.size() < 3 || host.back() != ']') return bad("unbalanced bracket");
    host = host.substr(1, host.size() - 2);
  }
  return resolve(std::string(host), port, false);
}

std::string format_address(std::string_view host, int port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return (v6 ? "[" + std::string(host) + "]" : std::string(host)) + ":" + std::to_string(port);
}

Result<UniqueFd> listen_tcp(const std::string& host, int port) {
  if (port < 0 || port > 65535) return InvalidArgumentError("port " + std::to_string(port) + " is not 0 to 65535");
  auto address = resolve(host, port, true);
  if (!address.ok()) return address.error_ptr();
  UniqueFd fd(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd.get() < 0) return Error("no socket to listen on: " + errno_text(errno));
  const int one = 1;
  // Only lets the port be taken again while old connections of it time out; two listeners stay impossible (NLS-1).
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->size) != 0 ||
      ::listen(fd.get(), 512) != 0) {
    const int number = errno;
    const std::string place = format_address(host, port);
    if (number == EADDRINUSE)
      return InvalidArgumentError("port in use: another process listens on " + place +
                                  "; choose another port, or 0 for any");
    return InvalidArgumentError("cannot listen on " + place + ": " + errno_text(number));
  }
  return fd;
}

Result<int> local_port(int fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0)
    return Error("getsockname: " + errno_text(errno));
  if (address.storage.ss_family == AF_INET6)
    return int(ntohs(reinterpret_cast<const sockaddr_in6&>(address.storage).sin6_port));
  return int(ntohs(reinterpret_cast<const sockaddr_in&>(address.storage).sin_port));
}

namespace {
std::string numeric(const SocketAddress& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address.storage);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return format_address(text, ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address.storage);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) ::inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
  else ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return format_address(text, ntohs(v6.sin6_port));
}
}  // namespace

std::string local_address(int fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) == 0 ? numeric(address)
                                                                                              : std::string();
}

std::string peer_address(int fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  return ::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) == 0 ? numeric(address)
                                                                                              : std::string();
}

Connecting begin_connect(const SocketAddress& address) {
  Connecting result;
  result.fd.reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (result.fd.get() < 0) {
    result.error = errno;
  } else if (::connect(result.fd.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.size) != 0 &&
             errno != EINPROGRESS) {
    result.error = errno;
  }
  return result;
}

int connect_error(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  if (error != 0) return error;
  // A local port of the dynamic range can connect to itself when nobody listens there: no peer, and the port is taken.
  SocketAddress mine, theirs;
  mine.size = theirs.size = sizeof mine.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&mine.storage), &mine.size) != 0) return errno;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&theirs.storage), &theirs.size) != 0) return errno;
  return mine.size == theirs.size && std::memcmp(&mine.storage, &theirs.storage, mine.size) == 0 ? ECONNREFUSED : 0;
}

void set_tcp_options(int fd, TcpOptions options) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  constexpr int kTcpRtoMaxMs = 44;  // TCP_RTO_MAX_MS of Linux 6.15; the headers of Debian 12 do not have it yet
  const int second = 1000;
  ::setsockopt(fd, IPPROTO_TCP, kTcpRtoMaxMs, &second, sizeof second);
  if (options.probe) {
    const int idle = 10, interval = 5;
    ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  }
  if (options.user_timeout_ms > 0) {
    const unsigned timeout = unsigned(options.user_timeout_ms);
    ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
  }
}

std::chrono::milliseconds silence_of(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  return std::chrono::milliseconds(info.tcpi_last_data_recv);
}

std::uint64_t raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlim_t target = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur < target) {
    const rlimit raised{target, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) return target;
  }
  return limit.rlim_cur;
}

// ----------------------------------------------------------------------------------------------------------------
// Listener

namespace {
UniqueFd reserve_descriptor() { return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }
constexpr int kAcceptsPerRound = 64;  // so that other sockets of the loop have their turn
constexpr auto kPause = std::chrono::milliseconds(50);
}  // namespace

Listener::Listener(SocketLoop& loop, UniqueFd socket, Options options, Accepted accepted)
    : loop_(loop),
      socket_(std::move(socket)),
      reserve_(reserve_descriptor()),
      options_(std::move(options)),
      accepted_(std::move(accepted)) {
  loop_.watch(socket_.get(), EPOLLIN, [this](std::uint32_t) { on_readable(); });
}

Listener::~Listener() {
  if (paused_) loop_.cancel(resume_);
  loop_.forget(socket_.get());
}

void Listener::on_readable() {
  for (int i = 0; i < kAcceptsPerRound; ++i) {
    UniqueFd connection(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.get() < 0) {
      const int number = errno;
      if (number == EAGAIN || number == EWOULDBLOCK) return;
      if (number == EINTR || number == ECONNABORTED || number == EPROTO) continue;
      if ((number == EMFILE || number == ENFILE) && refuse_without_descriptor()) continue;
      return pause();  // out of descriptors or memory: try again in a moment, for level-triggered events would spin
    }
    if (!options_.has_room()) {
      count_refused();
      continue;  // closed by going out of scope
    }
    accepted_(std::move(connection));
  }
}

void Listener::count_refused() {
  if (options_.refused) options_.refused->fetch_add(1, std::memory_order_relaxed);
}

bool Listener::refuse_without_descriptor() {
  if (reserve_.get() < 0) return false;
  reserve_.reset();
  UniqueFd newcomer(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool took = newcomer.get() >= 0;
  if (took) count_refused();
  newcomer.reset();
  reserve_ = reserve_descriptor();
  return took;
}

void Listener::pause() {
  loop_.rearm(socket_.get(), 0);
  paused_ = true;
  resume_ = loop_.at(std::chrono::steady_clock::now() + kPause, [this] {
    paused_ = false;
    if (reserve_.get() < 0) reserve_ = reserve_descriptor();
    loop_.rearm(socket_.get(), EPOLLIN);
  });
}

}  // namespace troupe::net

#include "collective/tcp/mesh.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/net/base/token.h"

namespace troupe::collective {
namespace {

// a stranger that connects and says nothing costs that, not the group
constexpr auto kHelloTimeout = std::chrono::seconds(1);
// of a rank that has said hello: it may share its core with many
constexpr auto kAnswerTimeout = std::chrono::seconds(10);

using Nonce = std::array<std::uint8_t, 16>;
using Proof = net::Token::Digest;

struct Hello {
  static constexpr std::uint32_t kMagic = 0x324d5254;  // "TRM2"
  std::uint32_t magic = kMagic;
  std::int32_t from = -1, to = -1;
  std::uint32_t channel = 0;
  Nonce nonce{};
};
struct Welcome {
  Nonce nonce{};
  Proof proof{};
};
static_assert(std::has_unique_object_representations_v<Hello> && std::has_unique_object_representations_v<Welcome>);

enum class Side { kDialler, kListener };

/// TM-1. The sides' labels differ: a proof cannot be reflected.
Proof proof_of(std::uint64_t key, Side side, const Hello& hello, const Nonce& listener) {
  std::array<std::uint8_t, net::Token::kBytes> bytes{};
  std::memcpy(bytes.data(), &key, sizeof key);
  std::string message = side == Side::kDialler ? "troupe mesh: dialler" : "troupe mesh: listener";
  message.append(reinterpret_cast<const char*>(&hello), sizeof hello);
  message.append(reinterpret_cast<const char*>(listener.data()), listener.size());
  return net::hmac_sha256(bytes, message);
}
bool same(const Proof& a, const Proof& b) {
  const auto text = [](const Proof& proof) {
    return std::string_view(reinterpret_cast<const char*>(proof.data()), proof.size());
  };
  return net::constant_time_equal(text(a), text(b));
}

bool wait_for(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    const int n = ::poll(&one, 1, milliseconds_until(deadline));
    if (n > 0) return true;
    if ((n < 0 && errno != EINTR) || Clock::now() >= deadline) return false;
  }
}

std::string local_host(TcpLinks& links) {
  for (int r = 0; r < links.ranks(); ++r) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char host[64] = {};
    if (r == links.rank() || links.data(r) < 0 ||
        ::getsockname(links.data(r), reinterpret_cast<sockaddr*>(&address), &size) != 0)
      continue;
    if (address.ss_family != AF_INET && address.ss_family != AF_INET6) continue;
    if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) == 0)
      return host;
  }
  return "127.0.0.1";
}

}  // namespace

int milliseconds_until(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      std::min<Clock::duration>(deadline - Clock::now(), std::chrono::hours(1)));
  return int(std::max<std::int64_t>(0, left.count()));
}

bool send_whole(int fd, const void* bytes, std::size_t size, Clock::time_point deadline) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::send(fd, static_cast<const char*>(bytes) + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) done += std::size_t(n);
    else if (errno != EAGAIN && errno != EINTR) return false;
    else if (!wait_for(fd, POLLOUT, deadline)) return false;
  }
  return true;
}

bool receive_whole(int fd, void* bytes, std::size_t size, Clock::time_point deadline) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::recv(fd, static_cast<char*>(bytes) + done, size - done, MSG_DONTWAIT);
    if (n > 0) done += std::size_t(n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    else if (!wait_for(fd, POLLIN, deadline)) return false;
  }
  return true;
}

Result<UniqueFd> dial(const std::string& address, Clock::time_point deadline) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return InvalidArgumentError(fmt::format("'{}' is not HOST:PORT", address));
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (const int error =
          ::getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints, &found);
      error != 0)
    return InvalidArgumentError(fmt::format("'{}': {}", address, ::gai_strerror(error)));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  int error = ECONNREFUSED;
  for (const addrinfo* one = found; one; one = one->ai_next) {
    UniqueFd fd(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    error = ::connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      if (!wait_for(fd.get(), POLLOUT, deadline))
        return CollectiveError::from({.reason = Reason::kTimeout, .operation = "connect"},
                                     fmt::format("no answer from {}", address));
      ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) return fd;
  }
  return CollectiveError::from({.reason = Reason::kBackend, .operation = "connect"},
                               fmt::format("cannot reach {}: {}", address, std::strerror(error)));
}

Result<MeshListener> MeshListener::open(const std::string& host) {
  MeshListener listener;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICHOST;
  if (::getaddrinfo(host.c_str(), "0", &hints, &found) != 0)
    return InvalidArgumentError(fmt::format("'{}' is not an address of this machine", host));
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  listener.fd_ = UniqueFd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  char port[16] = {};
  if (!listener.fd_ || ::bind(listener.fd_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener.fd_.get(), 1024) != 0 ||
      ::getsockname(listener.fd_.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&bound), size, nullptr, 0, port, sizeof port, NI_NUMERICSERV) != 0)
    return CollectiveError::from({.reason = Reason::kBackend, .operation = "connect"},
                                 fmt::format("cannot listen on {}: {}", host, std::strerror(errno)));
  fmt::format_to_n(listener.address_.text, sizeof listener.address_.text - 1, "{}:{}", host, port);
  return listener;
}

namespace {

/// The dialler's side of the proof.
Status prove_to(int fd, int from, int to, Channel channel, std::uint64_t key, Clock::time_point deadline) {
  const auto hung_up = [&] {
    return CollectiveError::from({.reason = Reason::kDied, .operation = "connect", .rank = from, .missing_ranks = {to}},
                                 fmt::format("rank {} hung up", to));
  };
  Hello hello{.from = from, .to = to, .channel = std::uint32_t(channel)};
  if (Status filled = net::fill_random(hello.nonce); !filled.ok()) return filled;
  Welcome welcome;
  if (!send_whole(fd, &hello, sizeof hello, deadline) || !receive_whole(fd, &welcome, sizeof welcome, deadline))
    return hung_up();
  if (!same(welcome.proof, proof_of(key, Side::kListener, hello, welcome.nonce)))
    return CollectiveError::from(
        {.reason = Reason::kBackend, .operation = "connect", .rank = from, .missing_ranks = {to}},
        fmt::format("whoever listens at the address of rank {} does not know the group's key", to));
  const Proof answer = proof_of(key, Side::kDialler, hello, welcome.nonce);
  if (!send_whole(fd, &answer, sizeof answer, deadline)) return hung_up();
  return {};
}

/// The listener's side; none: it is a stranger, or somebody who is in the wrong place.
std::optional<Hello> proven_hello(int fd, const TcpLinks::Identity& own, std::uint64_t key,
                                  Clock::time_point deadline) {
  Hello hello;
  if (!receive_whole(fd, &hello, sizeof hello, std::min(deadline, Clock::now() + kHelloTimeout))) return std::nullopt;
  if (hello.magic != Hello::kMagic || hello.to != own.rank || hello.from <= own.rank || hello.from >= own.ranks ||
      hello.channel > 1)
    return std::nullopt;
  Welcome welcome;
  if (!net::fill_random(welcome.nonce).ok()) return std::nullopt;
  welcome.proof = proof_of(key, Side::kListener, hello, welcome.nonce);
  const auto limit = std::min(deadline, Clock::now() + kAnswerTimeout);
  Proof answer{};
  if (!send_whole(fd, &welcome, sizeof welcome, limit) || !receive_whole(fd, &answer, sizeof answer, limit))
    return std::nullopt;
  if (!same(answer, proof_of(key, Side::kDialler, hello, welcome.nonce))) return std::nullopt;
  return hello;
}

}  // namespace

Result<std::shared_ptr<TcpLinks>> connect_mesh(const TcpLinks::Identity& identity, MeshListener listener,
                                               const std::vector<MeshAddress>& addresses, std::uint64_t key,
                                               Clock::time_point deadline) {
  auto links = TcpLinks::create(identity);
  for (int to = 0; to < identity.rank; ++to)
    for (Channel channel : {Channel::kData, Channel::kControl}) {
      const std::string address(addresses[std::size_t(to)].text,
                                ::strnlen(addresses[std::size_t(to)].text, sizeof(MeshAddress)));
      auto socket = dial(address, deadline);
      if (!socket.ok()) return socket.error_ptr();
      if (Status proven = prove_to(socket->get(), identity.rank, to, channel, key, deadline); !proven.ok())
        return proven.error_ptr();
      links->arrive(to, channel, *std::move(socket));
    }
  std::vector<std::array<bool, 2>> come(std::size_t(identity.ranks));
  for (int left = 2 * (identity.ranks - identity.rank - 1); left > 0;) {
    if (!wait_for(listener.fd(), POLLIN, deadline)) {
      std::vector<int> missing;
      for (int r = identity.rank + 1; r < identity.ranks; ++r)
        if (!come[std::size_t(r)][0] || !come[std::size_t(r)][1]) missing.push_back(r);
      return CollectiveError::from(
          {.reason = Reason::kTimeout, .operation = "connect", .rank = identity.rank, .missing_ranks = missing},
          fmt::format("ranks {} did not connect", fmt::join(missing, ", ")));
    }
    UniqueFd one(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto hello = one ? proven_hello(one.get(), identity, key, deadline) : std::nullopt;
    if (!hello || std::exchange(come[std::size_t(hello->from)][hello->channel], true)) continue;  // TM-1
    links->arrive(hello->from, Channel(hello->channel), std::move(one));
    --left;
  }
  return links;
}

Result<std::shared_ptr<TcpLinks>> connect_subgroup(TcpLinks& old, const Subgroup& subgroup,
                                                   Clock::time_point deadline) {
  auto listener = MeshListener::open(local_host(old));
  if (!listener.ok()) return listener.error_ptr();
  std::vector<MeshAddress> all(std::size_t(old.ranks())), members;
  if (!subgroup.exchange(&listener->address(), all.data(), sizeof(MeshAddress))) return std::shared_ptr<TcpLinks>();
  if (subgroup.members.empty()) return std::shared_ptr<TcpLinks>();
  for (int r : subgroup.members) members.push_back(all[std::size_t(r)]);
  return connect_mesh({subgroup.rank, int(members.size()), old.epoch()}, *std::move(listener), members, subgroup.key,
                      deadline);
}

}  // namespace troupe::collective

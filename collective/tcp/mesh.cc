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
#include <iterator>
#include <list>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/net/base/proof.h"
#include "core/net/base/source.h"
#include "core/net/base/token.h"

namespace troupe::collective {
namespace {

// for its hello, and once more for its answer: a rank may share its core with many, and strangers delay nobody (TM-3)
constexpr auto kGuestTimeout = std::chrono::seconds(10);
constexpr std::size_t kStrangersMax = 64;

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
bool wait_for(int fd, short events, const Until& until) {
  while (!until.over()) {
    pollfd both[]{{fd, events, 0}, {until.above ? until.above->wake_fd() : -1, POLLIN, 0}};
    const int n = ::poll(both, 2, milliseconds_until(until.deadline));
    if (n < 0 && errno != EINTR) return false;
    if (n <= 0) continue;
    if (both[0].revents != 0) return true;
    until.above->clear_wake();
  }
  return false;
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

bool send_whole(int fd, const void* bytes, std::size_t size, const Until& until) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::send(fd, static_cast<const char*>(bytes) + done, size - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) done += std::size_t(n);
    else if (errno != EAGAIN && errno != EINTR) return false;
    else if (!wait_for(fd, POLLOUT, until)) return false;
  }
  return true;
}

bool receive_whole(int fd, void* bytes, std::size_t size, const Until& until) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = ::recv(fd, static_cast<char*>(bytes) + done, size - done, MSG_DONTWAIT);
    if (n > 0) done += std::size_t(n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) return false;
    else if (!wait_for(fd, POLLIN, until)) return false;
  }
  return true;
}

Result<UniqueFd> dial(const std::string& address, const Until& until) {
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
    if (!fd && errno == EAFNOSUPPORT) continue;
    if (!fd) return Error(fmt::format("no socket to reach {}: {}", address, std::strerror(errno)));
    error = ::connect(fd.get(), one->ai_addr, one->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      if (!wait_for(fd.get(), POLLOUT, until))
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
Status prove_to(int fd, int from, int to, Channel channel, std::uint64_t key, const Until& until) {
  const auto no_answer = [&] {  // TM-4
    const bool late = Clock::now() >= until.deadline;
    return CollectiveError::from({.reason = late ? Reason::kTimeout : Reason::kBackend,
                                  .operation = "connect",
                                  .rank = from,
                                  .missing_ranks = {to}},
                                 fmt::format("rank {} {}", to, late ? "did not answer" : "hung up"));
  };
  Hello hello{.from = from, .to = to, .channel = std::uint32_t(channel)};
  if (Status filled = net::fill_random(hello.nonce); !filled.ok()) return filled;
  Welcome welcome;
  if (!send_whole(fd, &hello, sizeof hello, until) || !receive_whole(fd, &welcome, sizeof welcome, until))
    return no_answer();
  if (!net::same_proof(welcome.proof, proof_of(key, Side::kListener, hello, welcome.nonce)))
    return CollectiveError::from(
        {.reason = Reason::kBackend, .operation = "connect", .rank = from, .missing_ranks = {to}},
        fmt::format("whoever listens at the address of rank {} does not know the group's key", to));
  const Proof answer = proof_of(key, Side::kDialler, hello, welcome.nonce);
  if (!send_whole(fd, &answer, sizeof answer, until)) return no_answer();
  return {};
}

/// The listener's side: hears all who connect at once, until the higher ranks have proven the key on both channels.
class MeshDoor {
 public:
  MeshDoor(const TcpLinks::Identity& own, int listener, std::uint64_t key, TcpLinks& links)
      : own_(own), listener_(listener), key_(key), links_(links), come_(std::size_t(own.ranks)) {}

  Status run(const Until& until) {
    for (left_ = 2 * (own_.ranks - own_.rank - 1); left_ > 0;) {
      if (until.over()) return late();
      wait(until);
      if (Status accepted = accept_all(); !accepted.ok()) return accepted;
      std::erase_if(guests_, [&](Guest& guest) { return !hear(guest) || Clock::now() >= guest.until; });
    }
    return {};
  }

 private:
  /// Who has proven nothing yet.
  struct Guest {
    UniqueFd fd;
    net::Source source{};
    Clock::time_point until;  ///< TM-3
    std::size_t got = 0;      ///< of what is being read: its hello, then its answer
    bool welcomed = false;
    Hello hello{};
    Proof answer{}, expected{};
  };

  void wait(const Until& until) {
    Clock::time_point deadline = until.deadline;
    polled_.assign({{listener_, POLLIN, 0}, {until.above ? until.above->wake_fd() : -1, POLLIN, 0}});
    for (const Guest& guest : guests_)
      polled_.push_back({guest.fd.get(), POLLIN, 0}), deadline = std::min(deadline, guest.until);
    (void)::poll(polled_.data(), polled_.size(), milliseconds_until(deadline));  // whatever it was: all are looked at
    if (until.above) until.above->clear_wake();
  }

  Status accept_all() {
    for (;;) {
      UniqueFd one(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (one) {
        // More than the ranks themselves can be: strangers are among them. TM-3
        if (guests_.size() >= std::size_t(2 * own_.ranks) + kStrangersMax) make_room();
        const net::Source source = net::source_of(one.get());
        guests_.push_back({.fd = std::move(one), .source = source, .until = Clock::now() + kGuestTimeout});
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      const bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (full && guests_.empty())
        return CollectiveError::from(
            {.reason = Reason::kBackend, .operation = "connect", .rank = own_.rank},
            fmt::format("rank {} cannot take another connection: {}", own_.rank, std::strerror(errno)));
      if (full) make_room();
      return {};
    }
  }

  void make_room() {
    std::vector<net::Source> sources;
    for (const Guest& guest : guests_) sources.push_back(guest.source);
    guests_.erase(std::next(guests_.begin(), std::ptrdiff_t(net::who_makes_way(sources))));
  }

  /// False: it is through, or a stranger, or somebody who is in the wrong place.
  bool hear(Guest& guest) {
    if (!guest.welcomed) {
      bool whole = false;
      if (!read(guest, &guest.hello, sizeof guest.hello, whole)) return false;
      if (whole && !welcome(guest)) return false;
    }
    if (!guest.welcomed) return true;
    bool whole = false;
    if (!read(guest, &guest.answer, sizeof guest.answer, whole)) return false;
    if (!whole) return true;
    if (net::same_proof(guest.answer, guest.expected)) arrive(guest);
    return false;
  }

  /// False: it has ended.
  static bool read(Guest& guest, void* to, std::size_t size, bool& whole) {
    while (guest.got < size) {
      const ssize_t n = ::recv(guest.fd.get(), static_cast<char*>(to) + guest.got, size - guest.got, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return n < 0 && errno == EAGAIN;
      guest.got += std::size_t(n);
    }
    whole = true;
    return true;
  }

  bool welcome(Guest& guest) {
    const Hello& hello = guest.hello;
    if (hello.magic != Hello::kMagic || hello.to != own_.rank || hello.from <= own_.rank || hello.from >= own_.ranks ||
        hello.channel > 1)
      return false;
    Welcome welcome;
    if (!net::fill_random(welcome.nonce).ok()) return false;
    welcome.proof = proof_of(key_, Side::kListener, hello, welcome.nonce);
    guest.expected = proof_of(key_, Side::kDialler, hello, welcome.nonce);
    guest.welcomed = true;
    guest.got = 0;
    guest.until = Clock::now() + kGuestTimeout;
    // The first bytes on a fresh connection: they fit, or it is gone.
    return ::send(guest.fd.get(), &welcome, sizeof welcome, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(sizeof welcome);
  }

  void arrive(Guest& guest) {
    if (std::exchange(come_[std::size_t(guest.hello.from)][guest.hello.channel], true)) return;  // TM-1
    links_.arrive(guest.hello.from, Channel(guest.hello.channel), std::move(guest.fd));
    --left_;
  }

  Status late() const {
    std::vector<int> missing;
    for (int r = own_.rank + 1; r < own_.ranks; ++r)
      if (!come_[std::size_t(r)][0] || !come_[std::size_t(r)][1]) missing.push_back(r);
    return CollectiveError::from(
        {.reason = Reason::kTimeout, .operation = "connect", .rank = own_.rank, .missing_ranks = missing},
        fmt::format("ranks {} did not connect", fmt::join(missing, ", ")));
  }

  const TcpLinks::Identity& own_;
  const int listener_;
  const std::uint64_t key_;
  TcpLinks& links_;
  std::vector<std::array<bool, 2>> come_;
  int left_ = 0;
  std::list<Guest> guests_;  // oldest first
  std::vector<pollfd> polled_;
};

}  // namespace

Result<std::shared_ptr<TcpLinks>> connect_mesh(const TcpLinks::Identity& identity, MeshListener listener,
                                               const std::vector<MeshAddress>& addresses, std::uint64_t key,
                                               const Until& until) {
  auto links = TcpLinks::create(identity);
  for (int to = 0; to < identity.rank; ++to)
    for (Channel channel : {Channel::kData, Channel::kControl}) {
      const std::string address(addresses[std::size_t(to)].text,
                                ::strnlen(addresses[std::size_t(to)].text, sizeof(MeshAddress)));
      auto socket = dial(address, until);
      if (!socket.ok()) return socket.error_ptr();
      if (Status proven = prove_to(socket->get(), identity.rank, to, channel, key, until); !proven.ok())
        return proven.error_ptr();
      links->arrive(to, channel, *std::move(socket));
    }
  if (Status met = MeshDoor(identity, listener.fd(), key, *links).run(until); !met.ok()) return met.error_ptr();
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
                      {deadline, &old});
}

}  // namespace troupe::collective

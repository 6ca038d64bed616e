#include "collective/group/join_path.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include <fmt/format.h>

#include "collective/shm/communicator.h"

namespace troupe::collective {
namespace {

constexpr auto kAgain = std::chrono::milliseconds(10);
constexpr int kTriesMax = 100;  // to name the socket, against others that do the same

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    throw InvalidArgumentError(fmt::format("join: '{}' is too long for a socket's path", path));
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Connects, or gives the errno.
int connect_to(const UniqueFd& socket, const std::string& path) {
  const sockaddr_un address = address_of(path);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

UniqueFd new_socket(const MeetingPlan& plan) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) fail_meeting(plan, Reason::kBackend, fmt::format("no socket: {}", std::strerror(errno)));
  return socket;
}

bool is_foreign(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && !S_ISSOCK(facts.st_mode);
}

/// Connects to nobody (JP-5).
void check_not_foreign(const MeetingPlan& plan) {
  if (is_foreign(plan.address))
    throw InvalidArgumentError(
        fmt::format("join: {} is there and is no socket: it is left alone; name another path", plan.address));
}

/// By connecting, where it is a socket.
enum class There { kNothing, kForeign, kLiving, kDead };
There look_at(const MeetingPlan& plan, const std::string& path) {
  if (is_foreign(path)) return There::kForeign;
  const int error = connect_to(new_socket(plan), path);
  return error == ECONNREFUSED ? There::kDead : error == ENOENT ? There::kNothing : There::kLiving;
}

/// The socket of rank 0, under its name as long as this lives.
class ListeningSocket {
 public:
  explicit ListeningSocket(const MeetingPlan& plan) : path_(plan.address) {
    std::random_device random;
    aside_ = fmt::format("{}.{:08x}", path_, random());
    socket_ = new_socket(plan);
    const sockaddr_un address = address_of(aside_);
    struct stat facts {};
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::chmod(aside_.c_str(), 0600) != 0 || ::lstat(aside_.c_str(), &facts) != 0 ||
        ::listen(socket_.get(), SOMAXCONN) != 0)
      give_up(plan, Reason::kBackend, fmt::format("cannot listen at {}: {}", path_, std::strerror(errno)));
    inode_ = facts.st_ino;
    take_name(plan);
    ::unlink(aside_.c_str());
  }
  ~ListeningSocket() {
    struct stat facts {};
    if (::lstat(path_.c_str(), &facts) == 0 && facts.st_ino == inode_) ::unlink(path_.c_str());  // JP-3
  }
  ListeningSocket(const ListeningSocket&) = delete;
  ListeningSocket& operator=(const ListeningSocket&) = delete;
  int fd() const { return socket_.get(); }

 private:
  [[noreturn]] void give_up(const MeetingPlan& plan, Reason reason, const std::string& text) {
    ::unlink(aside_.c_str());
    fail_meeting(plan, reason, text);
  }

  void take_name(const MeetingPlan& plan) {
    for (int tries = 0; ::link(aside_.c_str(), path_.c_str()) != 0; ++tries) {
      if (errno != EEXIST || tries == kTriesMax)
        give_up(plan, Reason::kBackend, fmt::format("cannot listen at {}: {}", path_, std::strerror(errno)));
      switch (look_at(plan, path_)) {
        case There::kNothing: break;
        case There::kForeign: ::unlink(aside_.c_str()); check_not_foreign(plan); break;
        case There::kLiving:
          give_up(plan, Reason::kMismatch, fmt::format("another rank 0 listens at {} already", path_));
        case There::kDead: remove_dead(plan); break;
      }
    }
  }

  /// What is dead is looked at again under a name of its own: meanwhile another rank 0 may have taken the path.
  void remove_dead(const MeetingPlan& plan) {
    const std::string old = aside_ + ".old";
    if (::rename(path_.c_str(), old.c_str()) != 0) return;
    if (look_at(plan, old) != There::kDead) (void)!::link(old.c_str(), path_.c_str());  // alive: it has its name back
    ::unlink(old.c_str());
  }

  std::string path_, aside_;
  UniqueFd socket_;
  ino_t inode_ = 0;
};

/// Bytes, and room for one descriptor beside them.
struct MessageWithOne {
  MessageWithOne(void* begin, std::size_t size) : bytes{begin, size} {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  MessageWithOne(const MessageWithOne&) = delete;
  iovec bytes;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
};

/// The verdict with a descriptor beside it, at once or not at all: the buffer of a new connection takes it.
bool send_welcome(int to, const Verdict& verdict, int fd) {
  MessageWithOne message(const_cast<Verdict*>(&verdict), sizeof verdict);
  cmsghdr* header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  ssize_t n;
  do n = ::sendmsg(to, &message.header, MSG_NOSIGNAL);
  while (n < 0 && errno == EINTR);
  return n == ssize_t(sizeof verdict);
}

std::shared_ptr<ShmSegment> receive_all(const MeetingPlan& plan) {
  const MeetingNonce meeting = draw_nonce(plan);
  const std::uint64_t key = MeetingSecret(plan.token).group_key(meeting, plan.group);
  std::shared_ptr<ShmSegment> segment = ShmSegment::create({.ranks = plan.size, .epoch = 1, .key = key}).value();
  if (plan.size == 1) return segment;
  const Visit own = visit_of(plan);
  const ListeningSocket listener(plan);
  const Arrivals arrivals = receive_cards(plan, own, listener.fd());
  Verdict verdict;
  verdict.backend = std::uint32_t(Backend::kShm);
  verdict.meeting = meeting;
  const MeetingSecret secret(plan.token);
  for (int r = 1; r < plan.size; ++r) {
    verdict.proof = secret.verdict(arrivals.greetings[std::size_t(r)], verdict, {});
    if (!send_welcome(arrivals.sockets[std::size_t(r)].get(), verdict, segment->fd()))
      fail_meeting(plan, Reason::kDied, fmt::format("rank {} hung up", r), {r});
  }
  return segment;
}

/// JP-4
void check_owner(const MeetingPlan& plan, int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    fail_meeting(plan, Reason::kBackend,
                 fmt::format("cannot ask who listens at {}: {}", plan.address, std::strerror(errno)));
  if (peer.uid != ::geteuid())
    fail_meeting(plan, Reason::kMismatch,
                 fmt::format("who listens at {} is another user ({}): name another path", plan.address, peer.uid));
}

/// Rank 0 may not be there yet: there is no event for the birth of a socket.
UniqueFd dial_rank_0(const MeetingPlan& plan) {
  for (;;) {
    UniqueFd socket = new_socket(plan);
    const int error = connect_to(socket, plan.address);
    if (error == 0) {
      check_owner(plan, socket.get());
      return socket;
    }
    if (error != ENOENT && error != ECONNREFUSED && error != EAGAIN)
      fail_meeting(plan, Reason::kBackend, fmt::format("cannot connect to {}: {}", plan.address, std::strerror(error)));
    check_not_foreign(plan);
    if (Clock::now() >= plan.deadline)
      fail_meeting(plan, Reason::kTimeout, fmt::format("rank 0 does not listen at {}", plan.address), {0});
    (void)::poll(nullptr, 0, std::min(int(kAgain.count()), milliseconds_until(plan.deadline)));
  }
}

/// Reads the verdict, and the descriptor that comes with its first byte.
UniqueFd receive_verdict(const MeetingPlan& plan, int socket, Verdict& verdict) {
  UniqueFd descriptor;
  for (std::size_t got = 0; got < sizeof verdict;) {
    MessageWithOne message(reinterpret_cast<char*>(&verdict) + got, sizeof verdict - got);
    const ssize_t n = ::recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      fail_meeting(plan, Reason::kDied, "rank 0 hung up", {0});
    if (n > 0) {
      got += std::size_t(n);
      const cmsghdr* header = CMSG_FIRSTHDR(&message.header);
      int fd = -1;
      if (header && header->cmsg_type == SCM_RIGHTS)
        std::memcpy(&fd, CMSG_DATA(header), sizeof fd), descriptor.reset(fd);
      continue;
    }
    if (Clock::now() >= plan.deadline)
      fail_meeting(plan, Reason::kTimeout, "rank 0 does not answer: not all ranks have come", {0});
    pollfd one{socket, POLLIN, 0};
    (void)::poll(&one, 1, milliseconds_until(plan.deadline));
  }
  return descriptor;
}

std::shared_ptr<ShmSegment> ask(const MeetingPlan& plan) {
  const Visit own = visit_of(plan);
  const UniqueFd socket = dial_rank_0(plan);
  const MeetingGreeting greeting = introduce(plan, own, socket.get());
  Verdict verdict;
  UniqueFd descriptor = receive_verdict(plan, socket.get(), verdict);
  check_verdict(plan, greeting, verdict, {});
  if (!descriptor) fail_meeting(plan, Reason::kBackend, "rank 0 sent no descriptor");
  const std::uint64_t key = MeetingSecret(plan.token).group_key(verdict.meeting, plan.group);
  std::shared_ptr<ShmSegment> segment = ShmSegment::attach(std::move(descriptor), key).value();
  if (segment->ranks() != plan.size)
    fail_meeting(plan, Reason::kMismatch, fmt::format("rank 0's memory is for {} ranks", segment->ranks()));
  return segment;
}

}  // namespace

std::unique_ptr<Communicator> meet_at_path(const MeetingPlan& plan) {
  (void)address_of(plan.address);
  return std::make_unique<ShmCommunicator>(plan.rank == 0 ? receive_all(plan) : ask(plan), plan.rank);
}

}  // namespace troupe::collective

// join: groups of processes that no driver made. At HOST:PORT they meet as rendezvous.h says. At a path they are on one machine:
// rank 0 makes the memory and listens on a socket in the file system; the others connect, say who they are, and are given the
// descriptor.
//
//   rank r -> rank 0    | magic | version | rank | size |      rank 0 -> rank r    | 0 or an error text | key |, descriptor
//
// Who disagrees on the size or comes twice is refused by name. The socket is there only until all have come, and only its
// owner can connect to it.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/member.h"
#include "collective/own_gpu.h"
#include "collective/rendezvous.h"
#include "collective/shm_communicator.h"
#include "core/base/environment.h"

namespace troupe::collective {
namespace {

constexpr std::uint32_t kMagic = 0x7470636a, kVersion = 1;
struct Hello { std::uint32_t magic, version; std::int32_t rank, size; };
struct Answer { std::uint64_t key; char error[120]; };

struct Meeting {
  std::string name, path;
  int rank, size;
  Clock::time_point deadline;
};

[[noreturn]] void fail(const Meeting& meeting, Reason reason, const std::string& text, std::vector<int> missing = {}) {
  throw CollectiveError::from({.reason = reason, .group = meeting.name, .operation = "join", .rank = meeting.rank, .missing_ranks = std::move(missing)}, text);
}

int milliseconds_left(const Meeting& meeting) {
  return int(std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(meeting.deadline - Clock::now()).count()));
}
bool readable(int fd, const Meeting& meeting) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, milliseconds_left(meeting)) > 0;
}

sockaddr_un address_of(const Meeting& meeting) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (meeting.path.size() >= sizeof address.sun_path) throw InvalidArgumentError("join: the address is too long for a socket's path");
  std::memcpy(address.sun_path, meeting.path.data(), meeting.path.size());
  return address;
}

void answer(int to, const Answer& text, int fd) {
  iovec bytes{const_cast<Answer*>(&text), sizeof text};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  (void)!::sendmsg(to, &message, MSG_NOSIGNAL);
}

/// What is wrong with one that wants to join; empty: nothing.
std::string objection(const Hello& hello, const Meeting& meeting, const std::vector<bool>& here) {
  if (hello.magic != kMagic || hello.version != kVersion) return "another version of Troupe";
  if (hello.size != meeting.size) return fmt::format("rank {} says {} ranks, rank 0 says {}", hello.rank, hello.size, meeting.size);
  if (hello.rank < 1 || hello.rank >= meeting.size) return fmt::format("there is no rank {} of {}", hello.rank, meeting.size);
  if (here[std::size_t(hello.rank)]) return fmt::format("rank {} has come twice", hello.rank);
  return {};
}

std::shared_ptr<ShmSegment> receive_all(const Meeting& meeting) {
  std::random_device random;
  const std::uint64_t key = std::uint64_t(random()) << 32 | random();
  std::shared_ptr<ShmSegment> segment = ShmSegment::create({.ranks = meeting.size, .epoch = 1, .key = key}).value();
  if (meeting.size == 1) return segment;
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  const sockaddr_un address = address_of(meeting);
  ::unlink(meeting.path.c_str());
  const mode_t before = ::umask(0177);
  const bool bound = ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  ::umask(before);
  if (!bound || ::listen(listener.get(), meeting.size) != 0) fail(meeting, Reason::kBackend, fmt::format("cannot listen at {}: {}", meeting.path, std::strerror(errno)));
  std::vector<bool> here(std::size_t(meeting.size), false);
  for (int come = 1; come < meeting.size;) {
    if (!readable(listener.get(), meeting)) {
      ::unlink(meeting.path.c_str());
      std::vector<int> missing;
      for (int r = 1; r < meeting.size; ++r)
        if (!here[std::size_t(r)]) missing.push_back(r);
      fail(meeting, Reason::kTimeout, fmt::format("ranks {} did not come", fmt::join(missing, ", ")), missing);
    }
    UniqueFd one(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Hello hello{};
    if (!one || !readable(one.get(), meeting) || ::recv(one.get(), &hello, sizeof hello, 0) != ssize_t(sizeof hello)) continue;
    Answer reply{key, {}};
    const std::string wrong = objection(hello, meeting, here);
    wrong.copy(reply.error, sizeof reply.error - 1);
    answer(one.get(), reply, wrong.empty() ? segment->fd() : -1);
    if (!wrong.empty()) continue;
    here[std::size_t(hello.rank)] = true;
    ++come;
  }
  ::unlink(meeting.path.c_str());
  return segment;
}

std::shared_ptr<ShmSegment> ask(const Meeting& meeting) {
  UniqueFd socket;
  const sockaddr_un address = address_of(meeting);
  for (;;) {  // rank 0 may not be there yet: there is no event for the birth of a socket
    socket = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) break;
    if (milliseconds_left(meeting) == 0) fail(meeting, Reason::kTimeout, fmt::format("rank 0 does not listen at {}", meeting.path), {0});
    (void)::poll(nullptr, 0, std::min(10, milliseconds_left(meeting)));
  }
  const Hello hello{kMagic, kVersion, meeting.rank, meeting.size};
  (void)!::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL);
  Answer reply{};
  iovec bytes{&reply, sizeof reply};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (!readable(socket.get(), meeting)) fail(meeting, Reason::kTimeout, "rank 0 does not answer", {0});
  if (::recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC) != ssize_t(sizeof reply)) fail(meeting, Reason::kDied, "rank 0 hung up", {0});
  if (reply.error[0] != 0) fail(meeting, Reason::kMismatch, std::string(reply.error, strnlen(reply.error, sizeof reply.error)));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (!header || header->cmsg_type != SCM_RIGHTS) fail(meeting, Reason::kBackend, "rank 0 sent no descriptor");
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return ShmSegment::attach(UniqueFd(fd), reply.key).value();
}

}  // namespace

namespace {

int number_from(const char* mpirun, const char* torchrun, const char* what) {
  for (const char* name : {mpirun, torchrun}) {
    const std::string text = environment(name);
    int value = -1;
    if (text.empty()) continue;
    const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (bad != std::errc() || end != text.data() + text.size() || value < 0) throw InvalidArgumentError(fmt::format("join: {}={} is no {}", name, text, what));
    return value;
  }
  throw InvalidArgumentError(fmt::format("join: no {} was given, and neither {} nor {} is set", what, mpirun, torchrun));
}

/// HOST:PORT rather than a path.
bool is_network(const std::string& address) {
  const auto colon = address.rfind(':');
  return colon != std::string::npos && colon + 1 < address.size() && address.find('/') == std::string::npos &&
         address.find_first_not_of("0123456789", colon + 1) == std::string::npos;
}

Backend chosen(Backend asked) {
  if (asked != Backend::kAuto) return asked;
  const std::string forced = environment("TROUPE_COLLECTIVE_BACKEND");
  if (forced.empty() || forced == "auto") return Backend::kAuto;
  if (forced == "shm") return Backend::kShm;
  if (forced == "tcp") return Backend::kTcp;
  if (forced == "nccl") return Backend::kNccl;
  throw InvalidArgumentError(fmt::format("TROUPE_COLLECTIVE_BACKEND={}: join knows auto, shm, tcp and nccl", forced));
}

}  // namespace

Group join(const std::string& name, int rank, int size, JoinOptions options) {
  if (rank == kFromEnvironment) rank = number_from("OMPI_COMM_WORLD_RANK", "RANK", "rank");
  if (size == kFromEnvironment) size = number_from("OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "size");
  if (size < 1 || rank < 0 || rank >= size) throw InvalidArgumentError(fmt::format("join: rank {} of {}", rank, size));
  if (options.address.empty()) {
    const std::string host = environment("MASTER_ADDR"), port = environment("MASTER_PORT");
    if (!host.empty() && !port.empty()) options.address = host + ":" + port;
  }
  const Backend backend = chosen(options.backend);
  if (backend == Backend::kHier) throw InvalidArgumentError("join: this backend is not there: use kAuto, kShm, kTcp or kNccl");
  const auto now = Clock::now();
  const auto deadline = options.timeout >= Clock::time_point::max() - now ? Clock::time_point::max() : now + options.timeout;
  std::unique_ptr<Communicator> communicator;
  if (is_network(options.address)) {
    communicator = meet_at({.group = name, .address = options.address, .token = options.token, .rank = rank, .size = size, .backend = backend,
                            .deterministic = options.deterministic, .deadline = deadline});
  } else {
    if (backend == Backend::kTcp) throw InvalidArgumentError("join: kTcp needs an address HOST:PORT");
    Meeting meeting{name, options.address, rank, size, deadline};
    if (meeting.path.empty()) meeting.path = fmt::format("/tmp/troupe-join-{}-{}", ::getuid(), name);
    communicator = std::make_unique<ShmCommunicator>(rank == 0 ? receive_all(meeting) : ask(meeting), rank);
  }
  if (backend == Backend::kNccl) {  // what has met are the control links
    Patience patience(deadline == Clock::time_point::max() ? kForever : std::max<Duration>(Duration::zero(), deadline - Clock::now()), nullptr);
    communicator = over_own_gpu(std::move(communicator), name, NcclPlan::Otherwise::kFail, patience);
  }
  Group g(std::make_shared<detail::Member>(std::move(communicator), detail::MemberOptions{.group = name, .timeout = std::chrono::seconds(30), .environment = nullptr}));
  g.barrier({.timeout = options.timeout});
  return g;
}

}  // namespace troupe::collective

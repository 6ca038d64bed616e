// An object of 256 MiB, every byte written on one node and read on another of this machine: over the data socket,
// checksum verified.
//
//   node/transfer_256MiB_ms           a new object each time, median of five after the first
//   node/transfer_256MiB_first_ms     the first one: the pages of both stores are touched for the first time
//   node/transfer_busy_over_sockets   the same beside two foreign busy loops: its rate over that of one TCP connection
//                                     of loopback between two processes with warm memory, beside the same loops, in
//                                     turns
//   node/transfer_busy_ms             the time of that, with the connection's as floor
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "bench/harness.h"
#include <troupe/state.h>
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

constexpr std::size_t kSize = std::size_t{256} << 20;

class Reader {
 public:
  double read_ms(ObjectRef<Array<char>> ref) {
    const auto start = Clock::now();
    const Array<char> view = get(ref);
    const double ms = seconds_since(start) * 1e3;
    if (view[0] != view[view.size() - 1] || view[0] == 0) throw Error("wrong bytes");
    return ms;
  }
};

/// One TCP connection of loopback to a process that reads everything into memory whose pages are there.
class SocketFloor {
 public:
  SocketFloor() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    void* const memory = ::mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (listener < 0 || memory == MAP_FAILED || ::bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        ::listen(listener, 1) != 0 || ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      throw Error("no socket for the floor");
    memory_ = static_cast<char*>(memory);
    std::memset(memory_, 1, 2 * kSize);
    const pid_t parent = ::getpid();
    child_ = ::fork();  // the child makes system calls only: no thread of the parent is in it
    if (child_ == 0) read_for_ever(parent, address, memory_ + kSize);
    connection_ = child_ > 0 ? ::accept(listener, nullptr, nullptr) : -1;
    ::close(listener);
    if (connection_ < 0) throw Error("no connection for the floor");
  }
  ~SocketFloor() {
    ::close(connection_);
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::munmap(memory_, 2 * kSize);
  }
  SocketFloor(const SocketFloor&) = delete;
  SocketFloor& operator=(const SocketFloor&) = delete;

  double transfer_ms() {
    const auto start = Clock::now();
    for (std::size_t sent = 0; sent < kSize;) {
      const ssize_t some = ::send(connection_, memory_ + sent, kSize - sent, MSG_NOSIGNAL);
      if (some <= 0) throw Error("the floor's connection ended");
      sent += std::size_t(some);
    }
    char done = 0;
    if (::recv(connection_, &done, 1, MSG_WAITALL) != 1) throw Error("the floor's connection ended");
    return seconds_since(start) * 1e3;
  }

 private:
  [[noreturn]] static void read_for_ever(pid_t parent, const sockaddr_in& address, char* memory) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const auto* where = reinterpret_cast<const sockaddr*>(&address);
    if (::getppid() != parent || ::connect(fd, where, sizeof(address)) != 0) ::_exit(1);
    for (;;) {
      for (std::size_t read = 0; read < kSize;) {
        const ssize_t some = ::recv(fd, memory + read, kSize - read, 0);
        if (some <= 0) ::_exit(0);
        read += std::size_t(some);
      }
      if (::send(fd, "1", 1, MSG_NOSIGNAL) != 1) ::_exit(0);
    }
  }

  char* memory_ = nullptr;
  int child_ = -1, connection_ = -1;
};

double transfer_ms(const ActorHandle<Reader>& reader, int number) {
  ArrayBuilder<char> builder(kSize);
  std::memset(builder.span().data(), 1 + number % 100, kSize);
  return get(reader.call<&Reader::read_ms>(put(std::move(builder).seal())));
}

void quiet(Harness& harness, const ActorHandle<Reader>& reader) {
  const double first = transfer_ms(reader, 0);
  harness.report({.row = "node/transfer_256MiB_first_ms", .value = first, .unit = "ms", .better = "lower"});
  Samples samples;
  for (int i = 1; i <= harness.choose(5, 2); ++i) samples.add(transfer_ms(reader, i));
  harness.report({.row = "node/transfer_256MiB_ms", .value = samples.median(), .spread = samples.deviation()});
}

void busy(Harness& harness, const ActorHandle<Reader>& reader) {
  SocketFloor socket;
  transfer_ms(reader, 0);
  socket.transfer_ms();
  Samples ours, plain;
  {
    const BusyNeighbours neighbours(2);
    for (int i = 0; i < harness.choose(7, 3); ++i) {
      plain.add(socket.transfer_ms());
      ours.add(transfer_ms(reader, i));
    }
  }
  harness.report({.row = "node/transfer_busy_over_sockets", .value = plain.median() / ours.median(), .floor = 1.0});
  harness.report({.row = "node/transfer_busy_ms",
                  .value = ours.median(),
                  .spread = ours.deviation(),
                  .floor = plain.median(),
                  .unit = "ms",
                  .better = "lower"});
}

const std::vector<std::string> kQuietRows{"node/transfer_256MiB_ms", "node/transfer_256MiB_first_ms"};
const std::vector<std::string> kBusyRows{"node/transfer_busy_over_sockets", "node/transfer_busy_ms"};

void measure(Harness& harness) {
  std::string other;
  for (const NodeRow& node : nodes())
    if (node.node_id != runtime_context().node_id) other = node.node_id;
  const auto reader = actor<Reader>.options({.scheduling = NodeAffinity{other}}).remote();
  if (harness.wants_any(kQuietRows)) quiet(harness, reader);
  if (harness.wants_any(kBusyRows)) busy(harness, reader);
}

}  // namespace

const Program program{.rows = {kQuietRows[0], kQuietRows[1], kBusyRows[0], kBusyRows[1]},
                      .measure = &measure,
                      .nodes = 2,
                      .cpus = 1,
                      .object_store_memory = std::uint64_t{1} << 30};

}  // namespace troupe::bench

#include "tests/node/connections.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/base/fd.h"

namespace troupe::node::test {
namespace {

int port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  return 0;
}

bool has_port(int fd, int port) {
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  return ::getsockname(fd, reinterpret_cast<sockaddr*>(&mine), &size) == 0 && port_of(mine) == port;
}

bool is_connected_at(int fd, int port) {
  sockaddr_storage theirs{};
  socklen_t size = sizeof theirs;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&theirs), &size) != 0) return false;
  return port_of(theirs) == port || has_port(fd, port);
}

bool listens_at(int fd, int port) {
  int listens = 0;
  socklen_t size = sizeof listens;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0 && has_port(fd, port);
}

template <class Choose> int shut_down(int pid, const Choose& choose) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  int count = 0;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", gone)) {
    std::error_code error;
    if (!std::filesystem::read_symlink(entry, error).string().starts_with("socket:")) continue;
    const UniqueFd socket(
        static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), std::atoi(entry.path().filename().c_str()), 0)));
    if (socket.get() >= 0 && choose(socket.get()) && ::shutdown(socket.get(), SHUT_RDWR) == 0) ++count;
  }
  return count;
}

}  // namespace

int cut_connections(int pid, int port) {
  return shut_down(pid, [port](int fd) { return is_connected_at(fd, port); });
}

int stop_listening(int pid, int port) {
  return shut_down(pid, [port](int fd) { return listens_at(fd, port); });
}

}  // namespace troupe::node::test

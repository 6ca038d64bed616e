// A port of loopback for tests that need its number before, or after, somebody listens there.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include "core/base/fd.h"

namespace troupe {

/// Bound, without a listener: who dials it is refused, and as long as it lives no socket that asks for any port is
/// given this one. Whoever listens with SO_REUSEADDR, as listen_tcp does, can listen there. None where bind() fails.
inline UniqueFd reserve_port() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

}  // namespace troupe

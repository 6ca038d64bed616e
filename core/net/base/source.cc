#include "core/net/base/source.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <map>

namespace troupe::net {

Source source_of(int fd) {
  Source source{};
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return source;
  if (address.ss_family == AF_INET) {
    std::memcpy(source.data() + 4, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, 4);
  } else if (address.ss_family == AF_INET6) {
    const in6_addr& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) std::memcpy(source.data() + 4, v6.s6_addr + 12, 4);
    else std::memcpy(source.data(), v6.s6_addr, 8);
  }
  return source;
}

std::size_t who_makes_way(std::span<const Source> waiting) {
  std::map<Source, std::size_t> of_source;
  std::size_t most = 0;
  for (const Source& source : waiting) {
    const std::size_t now = ++of_source[source];
    if (now > most) most = now;
  }
  for (std::size_t at = 0; at < waiting.size(); ++at)
    if (of_source[waiting[at]] == most) return at;
  return 0;
}

}  // namespace troupe::net

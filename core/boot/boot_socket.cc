#include "core/boot/boot_socket.h"

#include "core/boot/packet_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

namespace troupe::node {
namespace {

Error errno_error(const std::string& what) { return Error(what + ": " + std::strerror(errno)); }

constexpr int kBufferBytes = 208 * 1024;

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return make_error<InvalidArgumentError>("the socket path " + path + " is longer than " +
                                            std::to_string(sizeof(address.sun_path) - 1) +
                                            " bytes: choose a shorter session root (TROUPE_SESSION_ROOT)");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

void widen(int fd) {
  ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kBufferBytes, sizeof(kBufferBytes));
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return errno_error("unix socket");
  widen(fd.get());
  return fd;
}

Result<UniqueFd> payload_memfd(ByteView payload) {
  UniqueFd fd(::memfd_create("troupe-packet", MFD_CLOEXEC));
  if (fd.get() < 0) return errno_error("memfd_create");
  for (std::size_t done = 0; done < payload.size();) {
    const ssize_t n = ::pwrite(fd.get(), payload.data() + done, payload.size() - done, static_cast<off_t>(done));
    if (n <= 0) return errno_error("writing a packet");
    done += static_cast<std::size_t>(n);
  }
  return fd;
}

Status take_memfd(BootPacket& packet) {
  if (packet.fds.empty()) return SerializationError("a bootstrap packet lacks its memfd");
  const UniqueFd fd = std::move(packet.fds.front());
  packet.fds.erase(packet.fds.begin());
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return errno_error("fstat of a packet");
  if (!S_ISREG(info.st_mode) || info.st_size < 0 || static_cast<std::size_t>(info.st_size) > kPacketMax)
    return SerializationError("a bootstrap packet of " + std::to_string(info.st_size) + " bytes");
  packet.payload.resize(static_cast<std::size_t>(info.st_size));
  for (std::size_t done = 0; done < packet.payload.size();) {
    const ssize_t n =
        ::pread(fd.get(), packet.payload.data() + done, packet.payload.size() - done, static_cast<off_t>(done));
    if (n <= 0) return SerializationError("a bootstrap packet that became shorter");
    done += static_cast<std::size_t>(n);
  }
  return {};
}

std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<UniqueFd> connect_boot_socket(const std::string& path) {
  Result<sockaddr_un> address = address_of(path);
  if (!address.ok()) return address.error_ptr();
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0)
    return make_error<NotFoundError>("no daemon at " + path + ": " + std::strerror(errno));
  if (!S_ISSOCK(info.st_mode) || info.st_uid != ::getuid())
    return make_error<InvalidArgumentError>(path + " is not a socket of this user");
  Result<UniqueFd> fd = make_socket();
  if (!fd.ok()) return fd;
  if (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un)) != 0)
    return make_error<NotFoundError>("no daemon listens at " + path + ": " + std::strerror(errno));
  return fd;
}

Result<UniqueFd> listen_boot_socket(const std::string& path) {
  Result<sockaddr_un> address = address_of(path);
  if (!address.ok()) return address.error_ptr();
  Result<UniqueFd> fd = make_socket();
  if (!fd.ok()) return fd;
  ::unlink(path.c_str());
  if (::bind(fd->get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(sockaddr_un)) != 0)
    return errno_error("bind to " + path);
  if (::chmod(path.c_str(), 0600) != 0) return errno_error("chmod of " + path);
  if (::listen(fd->get(), 512) != 0) return errno_error("listen on " + path);
  return fd;
}

Result<std::pair<UniqueFd, UniqueFd>> boot_socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) return errno_error("socketpair");
  widen(fds[0]);
  widen(fds[1]);
  return std::pair<UniqueFd, UniqueFd>(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

Result<Peer> peer_of(int fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return errno_error("SO_PEERCRED");
  return Peer{credentials.pid, credentials.uid};
}

Result<Sent> try_send_packet(int fd, wire::BootKind kind, ByteView payload, std::span<const int> fds) {
  auto word = static_cast<std::uint32_t>(kind);
  UniqueFd memfd;
  std::vector<int> all;
  if (payload.size() > kPacketInline) {
    Result<UniqueFd> made = payload_memfd(payload);
    if (!made.ok()) return made.error_ptr();
    memfd = std::move(*made);
    all.push_back(memfd.get());
    word |= kInMemfd;
    payload = {};
  }
  all.insert(all.end(), fds.begin(), fds.end());
  if (all.size() > kPacketFdsMax) return make_error<InvalidArgumentError>("too many descriptors in one packet");

  iovec parts[2] = {{&word, sizeof(word)}, {const_cast<std::byte*>(payload.data()), payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kPacketFdsMax)] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (!all.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * all.size());
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * all.size());
    std::memcpy(CMSG_DATA(c), all.data(), sizeof(int) * all.size());
  }
  for (;;) {
    if (::sendmsg(fd, &message, MSG_NOSIGNAL) >= 0) return Sent::kYes;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return Sent::kFull;
    if (errno == ETOOMANYREFS) return Sent::kTooManyInFlight;
    if (errno == EPIPE || errno == ECONNRESET) return make_error<NodeDiedError>("the other end closed the connection");
    return errno_error("sending a bootstrap packet");
  }
}

Result<bool> send_packet(int fd, wire::BootKind kind, ByteView payload, std::span<const int> fds) {
  Result<Sent> sent = try_send_packet(fd, kind, payload, fds);
  if (!sent.ok()) return sent.error_ptr();
  return *sent == Sent::kYes;
}

Result<Received> receive_packet(int fd) {
  std::vector<std::byte> buffer(kPacketInline + sizeof(std::uint32_t));
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * (kPacketFdsMax + 1))];
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  ssize_t n = 0;
  do {
    message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    n = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  Received received;
  if (n < 0 && errno == EAGAIN) return received;
  if (n < 0 && errno != ECONNRESET) return errno_error("receiving a bootstrap packet");
  // the other end died with packets unread; the kernel wrote nothing, so `control` is not to be looked at (BS-3)
  if (n < 0) {
    received.state = Received::State::kClosed;
    return received;
  }
  received.packet.fds = take_fds(message);
  if (n == 0) {
    received.state = Received::State::kClosed;
    return received;
  }
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
    return make_error<SerializationError>("a truncated bootstrap packet");
  if (static_cast<std::size_t>(n) < sizeof(std::uint32_t))
    return make_error<SerializationError>("a bootstrap packet without a kind");
  std::uint32_t word = 0;
  std::memcpy(&word, buffer.data(), sizeof(word));
  received.packet.kind = static_cast<wire::BootKind>(word & ~kInMemfd);
  received.packet.payload.assign(buffer.begin() + sizeof(word), buffer.begin() + n);
  if (word & kInMemfd)
    if (Status status = take_memfd(received.packet); !status.ok()) return status.error_ptr();
  received.state = Received::State::kPacket;
  return received;
}

Result<BootPacket> wait_packet(int fd, Duration timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd poll{fd, POLLIN, 0};
    const int n = ::poll(&poll, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return make_error<GetTimeoutError>("no packet came from the daemon in time");
    Result<Received> received = receive_packet(fd);
    if (!received.ok()) return received.error_ptr();
    if (received->state == Received::State::kPacket) return std::move(received->packet);
    if (received->state == Received::State::kClosed)
      return make_error<NodeDiedError>("the daemon closed the connection");
  }
}

BootChannel::BootChannel(UniqueFd fd) : fd_(std::move(fd)) {
  ::fcntl(fd_.get(), F_SETFL, ::fcntl(fd_.get(), F_GETFL) | O_NONBLOCK);
}

bool BootChannel::send(wire::BootKind kind, std::vector<std::byte> payload, std::vector<UniqueFd> fds) {
  queue_.push_back({kind, std::move(payload), std::move(fds)});
  return flush();
}

bool BootChannel::flush() {
  while (!queue_.empty()) {
    const BootPacket& packet = queue_.front();
    std::vector<int> fds;
    for (const UniqueFd& fd : packet.fds) fds.push_back(fd.get());
    Result<bool> sent = send_packet(fd_.get(), packet.kind, packet.payload, fds);
    if (!sent.ok()) {
      queue_.clear();
      return false;
    }
    if (!*sent) return true;
    queue_.pop_front();
  }
  return true;
}

}  // namespace troupe::node

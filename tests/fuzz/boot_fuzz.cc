// BS-1, BS-3, WC-1 to WC-3: whatever comes on the unix socket between a process and its daemon is a whole packet or an
// error; no descriptor stays open, and no more memory is taken than the bytes allow. The packets are valid ones with a
// few edits, with descriptors beside them, in the packet or in a memfd.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/boot/boot_socket.h"
#include "core/wire/group_messages.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_watch.h"

namespace {

using namespace troupe;
using namespace troupe::node;

struct Sample {
  wire::BootKind kind;
  std::vector<std::byte> bytes;
};

Sample sample(unsigned which) {
  using wire::BootKind;
  const wire::Image image{"digest", "/bin/true", {"true", "-x", ""}, "/tmp", {"A=1", "B="}};
  wire::Hello hello;
  hello.registry_digest = "digest";
  hello.image = image;
  switch (which % 10) {
    case 0: return {BootKind::kHello, wire::encode_message(hello)};
    case 1: {
      wire::Welcome welcome;
      welcome.self = {1, 5};
      welcome.session_dir = "/tmp/session";
      welcome.node_resources = {};
      return {BootKind::kWelcome, wire::encode_message(welcome)};
    }
    case 2: {
      wire::Refused refused;
      refused.error.message = "no";
      refused.error.context.log_tail = {"one", "two"};
      return {BootKind::kRefused, wire::encode_message(refused)};
    }
    case 3: return {BootKind::kPair, wire::encode_message(wire::PairOffer{{1, 2}, 1})};
    case 4:
      return {BootKind::kFork, wire::encode_message(wire::ForkRequest{3, {{"A", "1"}, {"B", "2"}}, "/tmp", {0, 1}})};
    case 5: return {BootKind::kForked, wire::encode_message(wire::Forked{3, 77, "why"})};
    case 6: return {BootKind::kExited, wire::encode_message(wire::Exited{3, 77, 9})};
    case 7: return {BootKind::kLauncherReady, wire::encode_message(wire::LauncherReady{77, 1, "digest"})};
    case 8: return {BootKind::kRankSocket, wire::encode_message(wire::RankSocket{9, 1, 2, 0, 1})};
    default:
      hello.image.environment.assign(500, "NAME=a value of some length");
      return {BootKind::kHello, wire::encode_message(hello)};
  }
}

template <class M> void decode(ByteView bytes) {
  const fuzz::Exact exact(bytes);
  const fuzz::MemoryWatch memory;
  const Result<M> message = wire::decode_message<M>(exact.view());
  memory.require(3 * (32 * bytes.size() + (1 << 20)), "a bootstrap message");  // a vector that grows: thrice (SR-4)
  if (!message.ok()) return TROUPE_CHECK(message.error().code() == ErrorCode::kSerialization, "bad bytes say so");
  TROUPE_CHECK(wire::encode_message(*message).size() == bytes.size(), "a message has one size");
}

void decode(const BootPacket& packet) {
  using wire::BootKind;
  switch (packet.kind) {
    case BootKind::kHello: return decode<wire::Hello>(packet.payload);
    case BootKind::kWelcome: return decode<wire::Welcome>(packet.payload);
    case BootKind::kRefused: return decode<wire::Refused>(packet.payload);
    case BootKind::kPair: return decode<wire::PairOffer>(packet.payload);
    case BootKind::kRankSocket: return decode<wire::RankSocket>(packet.payload);
    case BootKind::kFork: return decode<wire::ForkRequest>(packet.payload);
    case BootKind::kForked: return decode<wire::Forked>(packet.payload);
    case BootKind::kExited: return decode<wire::Exited>(packet.payload);
    case BootKind::kLauncherReady: return decode<wire::LauncherReady>(packet.payload);
  }
}

int next_free() {
  const int fd = ::fcntl(0, F_DUPFD_CLOEXEC, 3);
  ::close(fd);
  return fd;
}

/// As send_packet does, but for what the input has changed.
void send_raw(int to, std::uint32_t word, const std::vector<std::byte>& payload, const std::vector<int>& fds) {
  iovec parts[2] = {{&word, sizeof word}, {const_cast<std::byte*>(payload.data()), payload.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)] = {};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    std::memcpy(CMSG_DATA(head), fds.data(), sizeof(int) * fds.size());
  }
  (void)::sendmsg(to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void run(fuzz::Input input) {
  auto pair = boot_socket_pair();
  if (!pair.ok()) return;
  Sample packet = sample(input.byte());
  const std::uint8_t how = input.byte();
  const std::size_t beside = how % 4 == 3 ? input.byte() % 40 : how % 4;  // more than kPacketFdsMax too
  auto word = static_cast<std::uint32_t>(packet.kind);
  if (how & 4) word = static_cast<std::uint32_t>(input.number(4));
  fuzz::edit_all(packet.bytes, input);
  UniqueFd memfd;
  std::vector<int> fds;
  if (how & 8 || packet.bytes.size() > kPacketInline) {
    word |= kInMemfd;
    memfd = UniqueFd(::memfd_create("fuzz", MFD_CLOEXEC));
    (void)!::write(memfd.get(), packet.bytes.data(), packet.bytes.size());
    if (how & 16) (void)!::ftruncate(memfd.get(), off_t(input.number(4) % (32 << 20)));
    fds.push_back(how & 32 ? pair->first.get() : memfd.get());  // a socket is no file
    packet.bytes.clear();
  }
  for (std::size_t i = 0; i < beside; ++i) fds.push_back(pair->second.get());
  send_raw(pair->first.get(), word, packet.bytes, fds);
  ::shutdown(pair->first.get(), SHUT_WR);
  const int free_before = next_free();
  {
    const fuzz::MemoryWatch memory;
    auto received = receive_packet(pair->second.get());
    memory.require(2 * kPacketMax + (1 << 20), "a bootstrap packet");
    if (received.ok() && received->state == Received::State::kPacket) decode(received->packet);
  }
  TROUPE_CHECK(next_free() == free_before, "a descriptor stayed open");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  run({data, size});
  return 0;
}

// What a peer's header alone can do to a rank's memory (TCS-4). The peer is a plain socket.
#include <gtest/gtest.h>

#include <sys/socket.h>

#include <cstdint>
#include <fstream>
#include <vector>

#include "collective/tcp/links.h"
#include "collective/tcp/streams.h"

namespace troupe::collective {
namespace {

long resident_bytes() {
  std::ifstream file("/proc/self/statm");
  long total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

// A message that nobody has asked for: at f0736ec the memory that it announced was cleared, and so taken, at once.
TEST(StreamsTest, TCS4_AnAnnouncedSizeTakesNoMemoryBeforeItsBytesCome) {
  struct { std::uint64_t bytes = 200 << 20, sequence = 0, what = 0xff, count = 5, scale = 0; } header;
  int fds[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd far(fds[0]);
  auto links = TcpLinks::create({.rank = 0, .ranks = 2, .epoch = 1});
  links->arrive(1, Channel::kData, UniqueFd(fds[1]));
  TcpStreams streams(*links);
  ASSERT_EQ(::send(far.get(), &header, sizeof header, 0), ssize_t(sizeof header));
  ASSERT_EQ(::send(far.get(), &header, 10, 0), 10);  // the beginning of its bytes
  std::vector<std::byte> into(1);
  Transfer other;  // of another tag: this rank reads
  other.peer = 1;
  other.tag = 6;
  other.to = into.data();
  other.bytes = 1;
  streams.post(other);
  const long before = resident_bytes();
  for (int i = 0; i < 4; ++i) ASSERT_NE(streams.pump(), TcpStreams::Moved::kFailed);
  EXPECT_LT(resident_bytes() - before, 20 << 20);
  EXPECT_FALSE(other.done);
}

}  // namespace
}  // namespace troupe::collective

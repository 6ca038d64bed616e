#include <sys/mman.h>

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <troupe/detail/serialize_archive.h>

#include "core/base/random.h"

namespace troupe::detail {
namespace {

void fill(std::vector<std::byte>& bytes, Random& random) {
  std::size_t at = 0;
  for (; at + 4 <= bytes.size(); at += 4) {
    const std::uint32_t word = random();
    std::memcpy(bytes.data() + at, &word, 4);
  }
  for (; at < bytes.size(); ++at) bytes[at] = std::byte(random());
}

// Sizes on both sides of every cut-over, at every kind of misalignment; nothing outside the target changes.
TEST(CopyBytes, CopiesExactlyItsBytes) {
  Random random(11);
  std::vector<std::size_t> sizes = {
      0, 1, 63, 4096, kLargeCopy - 1, kLargeCopy, kLargeCopy + 1, (16 << 20) + 13, (33 << 20) + 4097};
  for (int i = 0; i < 30; ++i) sizes.push_back(kLargeCopy + random.below(2 << 20));
  for (const std::size_t n : sizes) {
    const std::size_t from = random.below(5000), to = 64 + random.below(5000);
    std::vector<std::byte> source(from + n), target(to + n + 64, std::byte{0xA5});
    fill(source, random);
    copy_bytes(target.data() + to, source.data() + from, n);
    EXPECT_EQ(std::memcmp(target.data() + to, source.data() + from, n), 0)
        << n << " bytes, from " << from << " to " << to;
    for (std::size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(target[to - 1 - i], std::byte{0xA5}) << n;
      ASSERT_EQ(target[to + n + i], std::byte{0xA5}) << n;
    }
  }
}

// A page that cannot be touched lies directly behind both ranges.
TEST(CopyBytes, ReadsAndWritesNothingBeyondItsEnd) {
  constexpr std::size_t n = 3 << 20;
  const auto guarded = [] {
    auto* p =
        static_cast<std::byte*>(::mmap(nullptr, n + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_EQ(::mprotect(p + n, 4096, PROT_NONE), 0);
    return p;
  };
  std::byte* source = guarded();
  std::byte* target = guarded();
  std::memset(source, 7, n);
  for (const std::size_t shorter : {0, 1, 63, 64, 100, 4095, 4096, 4097, 32768}) {
    copy_bytes(target + shorter, source + shorter, n - shorter);
    copy_bytes(target + shorter, source, n - shorter);
  }
  EXPECT_EQ(std::memcmp(source, target, n), 0);
  ::munmap(source, n + 4096);
  ::munmap(target, n + 4096);
}

}  // namespace
}  // namespace troupe::detail

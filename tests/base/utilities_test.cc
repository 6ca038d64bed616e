#include <fcntl.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/base/unique_function.h"
#include "core/runtime/slab.h"

namespace troupe {
namespace {

struct Counted {
  explicit Counted(int& live) : live(&live) { ++live; }
  Counted(Counted&& other) noexcept : live(other.live) { ++*live; }
  ~Counted() { --*live; }
  int* live;
};

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) != -1; }

TEST(UniqueFd, ClosesOnce) {  // FD-1
  int raw = -1;
  {
    UniqueFd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    raw = a.get();
    UniqueFd b(std::move(a));
    EXPECT_FALSE(a);  // NOLINT: moved from is empty by contract
    EXPECT_TRUE(is_open(raw));
    a = std::move(b);
    EXPECT_EQ(a.get(), raw);
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(UniqueFd, GivesUpWhatItReleases) {
  UniqueFd a(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int raw = a.release();
  EXPECT_FALSE(a);
  a.reset();
  EXPECT_TRUE(is_open(raw));
  a.reset(raw);
  a.reset();
  EXPECT_FALSE(is_open(raw));
}

struct Numbered {
  Numbered(std::uint64_t handle, std::string text = {}) : handle(handle), text(std::move(text)) {}
  std::uint64_t handle;
  std::string text;
};

TEST(Slab, FindsByHandleUntilDestroyed) {
  worker::Slab<Numbered> slab;
  Numbered* const one = slab.make("one");
  const std::uint64_t a = one->handle;
  EXPECT_EQ(slab.find(a), one);
  slab.destroy(one, a);
  EXPECT_EQ(slab.find(a), nullptr);
  Numbered* const two = slab.make("two");
  EXPECT_EQ(two, one) << "the place is reused";
  EXPECT_NE(two->handle, a);
  EXPECT_EQ(slab.find(a), nullptr);
  EXPECT_EQ(slab.find(two->handle)->text, "two");
  EXPECT_EQ(slab.find(0), nullptr);
  EXPECT_EQ(slab.find(~0ull), nullptr);
  slab.destroy(two, two->handle);
}

/// One thing at a time uses one slot, whose generation comes round after 72 minutes of a million a second. A stream
/// whose call had the number 0 gave no credit, and stood.
TEST(Slab, HandlesAreNeverZeroAlsoWhenTheGenerationsComeRound) {
  worker::Slab<Numbered, std::uint8_t> slab;
  std::set<std::uint64_t> handles;
  for (int i = 0; i < 600; ++i) {
    Numbered* const one = slab.make();
    EXPECT_NE(one->handle, 0u) << i;
    EXPECT_EQ(slab.find(one->handle), one);
    EXPECT_EQ(handles.insert(one->handle).second, i < 255) << i;
    slab.destroy(one, one->handle);
  }
}

TEST(Slab, NeverMovesAndVisitsWhatIsThere) {
  worker::Slab<Numbered> slab;
  std::vector<Numbered*> all;
  for (int i = 0; i < 1000; ++i) all.push_back(slab.make());
  for (Numbered* one : all) EXPECT_EQ(slab.find(one->handle), one);
  for (std::size_t i = 0; i < all.size(); i += 2) slab.destroy(all[i], all[i]->handle);
  EXPECT_EQ(slab.live(), 500u);
  std::set<Numbered*> seen;
  slab.for_each([&](Numbered& one) { seen.insert(&one); });
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(seen.contains(all[i]), i % 2 == 1) << i;
}

TEST(UniqueFunction, HoldsMoveOnlyThingsInsideAndOutside) {
  auto small = std::make_unique<int>(4);
  unique_function<int(int)> f = [p = std::move(small)](int x) { return *p + x; };
  EXPECT_EQ(f(1), 5);
  std::array<long, 16> big{};
  big[15] = 9;
  unique_function<int(int)> g = [p = std::make_unique<int>(1), big](int x) {
    return *p + static_cast<int>(big[15]) + x;
  };
  EXPECT_EQ(g(1), 11);
  f = std::move(g);
  EXPECT_FALSE(g);  // NOLINT: moved from is empty by contract
  EXPECT_EQ(f(2), 12);
}

TEST(UniqueFunction, DestroysWhatItHoldsOnce) {
  int live = 0;
  {
    unique_function<void()> f = [c = Counted(live)] { (void)c; };
    std::array<char, 100> pad{};
    unique_function<void()> g = [c = Counted(live), pad] { (void)c, (void)pad; };
    EXPECT_EQ(live, 2);
    f = std::move(g);
    EXPECT_EQ(live, 1);
  }
  EXPECT_EQ(live, 0);
}

TEST(UniqueFunctionDeathTest, EmptyIsABugToCall) {
  unique_function<void()> f;
  EXPECT_FALSE(f);
  EXPECT_DEATH(f(), "empty function");
}

TEST(Bytes, AreLittleEndianAtAnyAddress) {
  std::array<std::byte, 9> memory{};
  store_little<std::uint32_t>(memory.data() + 1, 0x01020304);
  EXPECT_EQ(memory[1], std::byte{4});
  EXPECT_EQ(memory[4], std::byte{1});
  EXPECT_EQ(load_little<std::uint32_t>(memory.data() + 1), 0x01020304u);
  EXPECT_EQ(as_text(as_bytes("abc")), "abc");
  EXPECT_EQ(round_up(1, 8), 8u);
  EXPECT_EQ(round_up(16, 8), 16u);
}

}  // namespace
}  // namespace troupe

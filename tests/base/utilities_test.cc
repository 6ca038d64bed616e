#include <fcntl.h>

#include <array>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "core/base/bytes.h"
#include "core/base/fd.h"
#include "core/base/slab.h"
#include "core/base/unique_function.h"

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

TEST(Slab, FindsByHandleUntilErased) {  // SL-1
  Slab<std::string> slab;
  const auto [a, value] = slab.emplace("one");
  EXPECT_EQ(slab.find(a), value);
  EXPECT_TRUE(slab.erase(a));
  EXPECT_EQ(slab.find(a), nullptr);
  EXPECT_FALSE(slab.erase(a));
  const auto [b, again] = slab.emplace("two");
  EXPECT_EQ(again, value) << "the place is reused";
  EXPECT_NE(a, b);
  EXPECT_EQ(slab.find(a), nullptr);
  EXPECT_EQ(*slab.find(b), "two");
  EXPECT_EQ(slab.find(0), nullptr);
  EXPECT_EQ(slab.find(~0ull), nullptr);
}

TEST(Slab, NeverMovesAndDestroysWhatIsLeft) {  // SL-2
  int live = 0;
  {
    Slab<Counted> slab;
    std::vector<std::pair<Slab<Counted>::Handle, Counted*>> all;
    for (int i = 0; i < 1000; ++i) all.push_back(slab.emplace(live));
    for (const auto& [handle, value] : all) EXPECT_EQ(slab.find(handle), value);
    for (std::size_t i = 0; i < all.size(); i += 2) EXPECT_TRUE(slab.erase(all[i].first));
    EXPECT_EQ(live, 500);
    EXPECT_EQ(slab.size(), 500u);
  }
  EXPECT_EQ(live, 0);
}

TEST(Slab, StaysAsItWasWhenAConstructorThrows) {
  struct Picky {
    explicit Picky(bool fail) { if (fail) throw std::runtime_error("no"); }
  };
  Slab<Picky> slab;
  EXPECT_THROW(slab.emplace(true), std::runtime_error);
  EXPECT_EQ(slab.size(), 0u);
  const auto handle = slab.emplace(false).first;
  EXPECT_NE(slab.find(handle), nullptr);
}

TEST(UniqueFunction, HoldsMoveOnlyThingsInsideAndOutside) {
  auto small = std::make_unique<int>(4);
  unique_function<int(int)> f = [p = std::move(small)](int x) { return *p + x; };
  EXPECT_EQ(f(1), 5);
  std::array<long, 16> big{};
  big[15] = 9;
  unique_function<int(int)> g = [p = std::make_unique<int>(1), big](int x) { return *p + static_cast<int>(big[15]) + x; };
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

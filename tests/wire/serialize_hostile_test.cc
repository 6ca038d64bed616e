// Bytes of any origin: never a read outside them, never memory out of proportion, always a typed error (SR-1 to SR-4).
// The sanitizer presets run this file too; buffers are exactly as large as what they hold.
#include <cstring>
#include <memory>

#include <gtest/gtest.h>

#include "core/base/random.h"
#include "tests/wire/samples.h"

namespace troupe {
namespace {

using namespace samples;

// A heap block of exactly n bytes, so that a sanitizer sees the first byte too many.
class Exact {
 public:
  explicit Exact(std::span<const std::byte> bytes) : memory_(new std::byte[bytes.size()]), size_(bytes.size()) {
    if (size_ != 0) std::memcpy(memory_.get(), bytes.data(), size_);
  }
  std::span<const std::byte> view() const { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_;
};

template <class T> Result<T> decode(std::span<const std::byte> bytes) { return detail::decode<T>(Exact(bytes).view()); }

template <class T> void fails_at_every_length(const T& value) {
  const std::vector<std::byte> bytes = detail::encode(value);
  ASSERT_FALSE(bytes.empty());
  ASSERT_TRUE(decode<T>(bytes).ok());
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const Result<T> result = decode<T>(std::span(bytes).first(n));
    ASSERT_FALSE(result.ok()) << detail::type_name<T>() << " decoded from " << n << " of " << bytes.size() << " bytes";
    EXPECT_EQ(result.error().code(), ErrorCode::kSerialization);
    EXPECT_NE(result.error().message().find(detail::type_name<T>()), std::string::npos) << result.error().message();
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode<T>(longer).ok()) << "all bytes must be consumed";
}

TEST(Hostile, TruncatedInputIsAnErrorAtEveryLength) {
  fails_at_every_length(42);
  fails_at_every_length(true);
  fails_at_every_length(Color::kGreen);
  fails_at_every_length(std::string("text"));
  fails_at_every_length(std::vector<std::int64_t>{1, 2, 3});
  fails_at_every_length(std::vector<bool>{true, false, true, true, true, true, true, true, true});
  fails_at_every_length(std::vector<Empty>(3));
  fails_at_every_length(std::vector<std::string>{"a", "bb"});
  fails_at_every_length(std::map<std::string, std::vector<int>>{{"a", {1}}, {"b", {}}});
  fails_at_every_length(std::unordered_set<int>{1, 2, 3});
  fails_at_every_length(std::variant<int, std::string>("v"));
  fails_at_every_length(std::optional<Inner>(Inner{1, "x"}));
  fails_at_every_length(std::make_unique<int>(1));
  fails_at_every_length(CArrays{{1, 2, 3}, "name", {{1, "a"}, {2, "b"}}, 4});
  fails_at_every_length(deep());
  fails_at_every_length(tree());
  fails_at_every_length(Account(7));
  fails_at_every_length(HasItem{1, Item(7), "after"});
}

template <class T> void refused(std::vector<std::uint8_t> raw, const char* why) {
  const Result<T> result = decode<T>(std::as_bytes(std::span(raw)));
  ASSERT_FALSE(result.ok()) << detail::type_name<T>();
  EXPECT_NE(result.error().message().find(why), std::string::npos) << result.error().message();
}

TEST(Hostile, CountsAreHeldAgainstTheBytesLeft) {
  const std::vector<std::uint8_t> most = {0xFE, 0xFF, 0xFF, 0xFF, 1, 2, 3};
  refused<std::string>(most, "count");
  refused<std::vector<double>>(most, "count");
  refused<std::vector<std::string>>(most, "count");
  refused<std::vector<Empty>>(most, "count");
  refused<std::vector<bool>>(most, "count");
  refused<std::vector<Item>>(most, "count");
  refused<std::map<int, Empty>>(most, "count");
  refused<std::vector<int>>({1, 0, 0, 0, 1, 2, 3}, "count");
  refused<std::vector<int>>({0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1}, "count");
  refused<std::string>({0xFF, 0xFF, 0xFF, 0xFF, 1, 0, 0, 0, 0, 0, 0, 0, 'x'}, "short count in the long form");
  refused<std::vector<bool>>({9, 0, 0, 0, 1}, "count");
}

TEST(Hostile, ValuesThatCannotBeAreRefused) {
  refused<bool>({2}, "neither 0 nor 1");
  refused<Gaps>({'a', 0, 0, 0, 0, 0, 0, 0, 0, 7}, "neither 0 nor 1");
  refused<std::optional<int>>({2, 0, 0, 0, 0}, "neither 0 nor 1");
  refused<std::unique_ptr<int>>({255, 0, 0, 0, 0}, "neither 0 nor 1");
  refused<std::variant<int, char>>({2, 0}, "alternative");
  refused<std::set<char>>({2, 0, 0, 0, 'a', 'a'}, "twice");
  refused<std::map<char, char>>({2, 0, 0, 0, 'a', 1, 'a', 2}, "twice");
  refused<std::vector<bool>>({3, 0, 0, 0, 0x0F}, "filler");
  refused<std::vector<Empty>>({1, 0, 0, 0, 1}, "filler");
  refused<Account>({0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0}, "negative balance");
}

TEST(Hostile, AfterAFailureEverythingIsEmpty) {
  const std::vector<std::uint8_t> raw = {1, 0, 0, 0, 'a', 2, 9, 9, 9, 9};  // a string, then a bool that is none
  std::string text = "old";
  bool flag = true;
  int number = 5;
  std::vector<int> numbers{1};
  std::optional<int> maybe = 1;
  std::variant<int, std::string> either = "old";
  std::unique_ptr<int> pointer = std::make_unique<int>(1);
  std::array<int, 2> array{1, 2};
  detail::Reader reader(std::as_bytes(std::span(raw)));
  reader(text, flag, number, numbers, maybe, either, pointer, array);
  EXPECT_TRUE(reader.failed());
  EXPECT_EQ(text, "a");
  EXPECT_FALSE(flag);
  EXPECT_EQ(number, 0);
  EXPECT_TRUE(numbers.empty());
  EXPECT_FALSE(maybe);
  EXPECT_EQ(either.index(), 0u);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(array, (std::array<int, 2>{}));
}

// Trees whose every level is one small vector: the nesting is refused before the stack is gone.
TEST(Hostile, DeepNestingIsRefusedWhenDecoding) {
  std::vector<std::byte> bomb;
  for (int level = 0; level < 1'000'000; ++level) bomb.push_back(std::byte{1});
  const Result<List> result = decode<List>(bomb);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message().find("nested too deeply"), std::string::npos) << result.error().message();
}

TEST(Hostile, DeepNestingIsRefusedWhenEncoding) {
  EXPECT_NO_THROW((void)detail::encode(List(detail::kMaxDepth)));
  EXPECT_THROW((void)detail::encode(List(detail::kMaxDepth + 1)), SerializationError);
  EXPECT_THROW((void)detail::encode(List(10'000)), SerializationError);
}

// What can be encoded can be decoded: both sides count depth alike.
TEST(Hostile, BothSidesDrawTheLineAtTheSameDepth) {
  for (int depth = 1; depth < 200; ++depth) {
    std::vector<std::byte> bytes;
    try {
      bytes = detail::encode(List(depth));
    } catch (const SerializationError&) {
      EXPECT_EQ(depth, detail::kMaxDepth + 1);
      return;
    }
    ASSERT_TRUE(decode<List>(bytes).ok()) << depth;
  }
  FAIL() << "no limit was met";
}

// A small message must not make a large allocation: elements that are small as bytes and large as objects.
TEST(Hostile, MemoryGrowsWithWhatIsReadNotWithWhatIsClaimed) {
  struct Large {
    std::array<std::string, 100> strings;
  };
  static_assert(sizeof(std::optional<Large>) > 3000);
  std::vector<std::byte> bytes(4 + 10'000, std::byte{2});  // ten thousand optionals claimed, the first is no optional
  const std::uint32_t count = 10'000;
  std::memcpy(bytes.data(), &count, 4);
  std::vector<std::optional<Large>> value;
  detail::Reader reader(bytes);
  reader(value);
  EXPECT_TRUE(reader.failed());
  EXPECT_LT(value.capacity(), 10u);
}

struct Sparse {
  std::array<double, 512> numbers{};
};

/// n elements of one byte each.
template <class T> Result<T> of_small_elements(std::uint32_t n, detail::Unfolding unfolding = {}) {
  std::vector<std::byte> bytes(4 + n);
  std::memcpy(bytes.data(), &n, 4);
  return detail::decode<T>(bytes, nullptr, unfolding);
}

template <class T> std::size_t counted(std::size_t elements) {
  const std::vector<std::byte> bytes = detail::encode(T(elements));
  std::size_t spare = 1;  // the least with which it can be decoded, to a power of two
  while (!detail::decode<T>(bytes, nullptr, {.times = 0, .spare = spare}).ok()) spare *= 2;
  return spare;
}

// SR-4 (REVIEW C.4): at f0736ec 64 MiB of empty strings took 512 MiB, and a megabyte of empty optionals gigabytes.
TEST(Hostile, SR4_MemoryIsBoundedByAMultipleOfTheBytes) {
  using Sparses = std::vector<std::optional<Sparse>>;
  EXPECT_TRUE(of_small_elements<Sparses>(10'000).ok()) << "41 MB of 10 KB: within what is spared";
  const auto refused = of_small_elements<Sparses>(100'000);
  ASSERT_FALSE(refused.ok()) << "410 MB of 100 KB";
  EXPECT_EQ(refused.error().code(), ErrorCode::kSerialization);
  EXPECT_NE(refused.error().message().find("unfolds into more memory"), std::string::npos) << refused.error().message();

  const std::vector<std::byte> strings = detail::encode(std::vector<std::string>(100'000));
  EXPECT_TRUE(detail::decode<std::vector<std::string>>(strings).ok()) << "8 times its bytes";
  EXPECT_FALSE(detail::decode<std::vector<std::string>>(strings, nullptr, {.times = 7, .spare = 0}).ok());
  EXPECT_TRUE(detail::decode<std::vector<std::string>>(strings, nullptr, {.times = 8, .spare = 0}).ok());
}

TEST(Hostile, SR4_CountsWhatEachKindOfContainerTakes) {
  EXPECT_GE(counted<std::vector<std::vector<int>>>(1000), 1000 * sizeof(std::vector<int>));
  EXPECT_GE(counted<std::list<int>>(1000), 1000 * (sizeof(int) + 2 * sizeof(void*)));
  EXPECT_GE(counted<std::vector<std::deque<int>>>(1000), 1000 * (sizeof(std::deque<int>) + 512 + 64))
      << "an empty deque has memory of its own";
  std::vector<std::unique_ptr<Sparse>> pointers(10);
  for (auto& one : pointers) one = std::make_unique<Sparse>();
  const std::vector<std::byte> bytes = detail::encode(pointers);
  using Pointers = std::vector<std::unique_ptr<Sparse>>;
  EXPECT_FALSE(detail::decode<Pointers>(bytes, nullptr, {.times = 0, .spare = 10 * sizeof(Sparse)}).ok());
  EXPECT_TRUE(detail::decode<Pointers>(bytes, nullptr, {.times = 0, .spare = 11 * sizeof(Sparse)}).ok());
  std::set<std::uint64_t> set{1, 2, 3};
  EXPECT_FALSE(detail::decode<std::set<std::uint64_t>>(detail::encode(set), nullptr, {.times = 0, .spare = 24}).ok());
  const std::string text(1 << 20, 'x');  // bytes that are copied as they are count for nothing
  EXPECT_TRUE(detail::decode<std::string>(detail::encode(text), nullptr, {.times = 0, .spare = 0}).ok());
}

struct Shifty {  // not the same in both passes
  mutable int calls = 0;
  int grow_by = 0;
  template <class Archive> void serialize(Archive& ar) {
    const int now = calls++;
    ar(std::string(static_cast<std::size_t>(10 + now * grow_by), 'x'));
  }
};

TEST(Hostile, AValueThatChangesBetweenThePassesIsAnErrorNotAnOverflow) {  // SR-1
  for (const int grow_by : {1, -1, 1000}) {
    Shifty value;
    value.grow_by = grow_by;
    detail::Sizer sizer;
    value.serialize(sizer);
    std::vector<std::byte> memory(sizer.size());
    detail::Writer writer(memory);
    EXPECT_THROW((value.serialize(writer), writer.finish()), SerializationError) << grow_by;
  }
  EXPECT_THROW(detail::encode_into({}, 1), SerializationError);
}

class Thrower {
 public:
  template <class Archive> void serialize(Archive&) { throw std::domain_error("no"); }
};

TEST(Hostile, ExceptionsOfUsersPassThrough) {
  EXPECT_THROW((void)detail::encode(Thrower{}), std::domain_error);
  EXPECT_THROW((void)detail::decode<Thrower>({}), std::domain_error);
  EXPECT_THROW((void)detail::encode(std::vector<Thrower>(1)), std::domain_error);
}

template <class T> void mutations_never_crash(const T& value, std::uint64_t seed) {
  Random random(seed);
  const std::vector<std::byte> good = detail::encode(value);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::byte> bytes = good;
    for (std::uint32_t n = 1 + random.below(4); n > 0; --n) {
      const std::size_t at = random.below(static_cast<std::uint32_t>(bytes.size()));
      bytes[at] = random.chance(0.3) ? std::byte{0xFF} : std::byte(random());
    }
    if (random.chance(0.2)) bytes.resize(1 + random.below(static_cast<std::uint32_t>(bytes.size())));
    const Result<T> result = decode<T>(bytes);
    if (result.ok()) {
      EXPECT_TRUE(detail::decode<T>(detail::encode(*result)).ok());
    } else {
      EXPECT_EQ(result.error().code(), ErrorCode::kSerialization);
    }
  }
}

TEST(Hostile, RandomChangesGiveAValueOrAnError) {
  mutations_never_crash(deep(), 1);
  mutations_never_crash(tree(), 2);
  mutations_never_crash(ErrorRecord{ErrorCode::kTask,
                                    "message",
                                    {"f", "t", "a", "n", 1, 2, {"l1", "l2"}},
                                    "type",
                                    {"base"},
                                    Outcome::kUnknown,
                                    {"d"}},
                        3);
}

}  // namespace
}  // namespace troupe

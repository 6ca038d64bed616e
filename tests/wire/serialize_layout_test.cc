// The bytes themselves, which two builds of one protocol version must agree on.
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "tests/wire/samples.h"

namespace troupe {
namespace {

using namespace samples;

std::string hex(const std::vector<std::byte>& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<int>(b) >> 4];
    text += kDigits[std::to_integer<int>(b) & 15];
  }
  return text;
}
template <class T> std::string encoded(const T& value) { return hex(detail::encode(value)); }

TEST(Layout, IsLittleEndianAndFixedWidth) {
  EXPECT_EQ(encoded(std::int32_t{0x01020304}), "04030201");
  EXPECT_EQ(encoded(std::int16_t{-2}), "feff");
  EXPECT_EQ(encoded(true), "01");
  EXPECT_EQ(encoded(1.0f), "0000803f");
  EXPECT_EQ(encoded(Color::kGreen), "01");
  EXPECT_EQ(encoded(std::chrono::milliseconds(258)), "0201000000000000");
}

TEST(Layout, OfContainersIsACountAndTheElements) {
  EXPECT_EQ(encoded(std::string("ab")), "020000006162");
  EXPECT_EQ(encoded(std::vector<std::uint16_t>{1, 2}), "0200000001000200");
  EXPECT_EQ(encoded(std::map<char, std::string>{{'k', "v"}}), "010000006b0100000076");
  EXPECT_EQ(encoded(std::vector<bool>{true, false, true}), "0300000005");
  EXPECT_EQ(encoded(std::vector<Empty>(2)), "020000000000") << "an empty element takes a byte";
  EXPECT_EQ(encoded(std::vector<Item>{Item(1)}), "010000000001000000") << "so does one that may be empty";
}

TEST(Layout, OfSumsIsATagAndTheValue) {
  EXPECT_EQ(encoded(std::optional<char>()), "00");
  EXPECT_EQ(encoded(std::optional<char>('a')), "0161");
  EXPECT_EQ(encoded(std::make_unique<char>('a')), "0161");
  EXPECT_EQ(encoded(std::variant<int, char>('a')), "0161");
  EXPECT_EQ(encoded(std::pair<char, char>('a', 'b')), "6162");
  EXPECT_EQ(encoded(std::array<char, 2>{'a', 'b'}), "6162");
}

TEST(Layout, OfAggregatesIsTheFieldsWithoutPadding) {
  EXPECT_EQ(encoded(Gaps{'a', 2, true}), "61020000000000000001");
  EXPECT_EQ(encoded(Inner{1, "x"}), "010000000100000078");
  EXPECT_EQ(encoded(Empty{}), "");
}

// The padding of an x87 long double never carries memory out of the process.
TEST(Layout, OfLongDoubleHasZeroPadding) {
  if (sizeof(long double) != 16 || std::numeric_limits<long double>::digits != 64)
    GTEST_SKIP() << "no x87 long double here";
  long double value;
  std::memset(&value, 0xEE, sizeof value);
  value = 1;
  EXPECT_EQ(encoded(value), "0000000000000080ff3f000000000000");
}

}  // namespace
}  // namespace troupe

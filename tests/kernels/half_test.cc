// The 16-bit floating-point types: every value there is, and every rounding.
#include <cmath>
#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>
#include <troupe/half.h>

namespace {

using troupe::bfloat16;
using troupe::float16;

static_assert(std::is_trivially_default_constructible_v<float16> && std::is_standard_layout_v<float16>);
static_assert(float16(1.0f).bits() == 0x3c00 && bfloat16(1.0f).bits() == 0x3f80);

// The value of the bits by the definition of the format, in double.
double value_of(unsigned bits, int exponent_bits, int mantissa_bits) {
  const unsigned mantissa = bits & ((1u << mantissa_bits) - 1u);
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1u << exponent_bits) - 1u));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T>
void check_every_value(int exponent_bits, int mantissa_bits) {
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const T half = T::from_bits(static_cast<std::uint16_t>(bits));
    const double want = value_of(bits, exponent_bits, mantissa_bits);
    const float got = half;
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_TRUE(std::isnan(float(T(got)))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), want) << bits;
    ASSERT_EQ(std::signbit(got), std::signbit(want)) << bits;
    ASSERT_EQ(T(got).bits(), bits);
  }
}

// Between each pair of neighbours: just below the middle, the middle, just above it.
template <class T>
void check_every_rounding(unsigned infinity, double first_past_the_end) {
  for (unsigned bits = 0; bits < infinity; ++bits) {
    const auto low = static_cast<double>(float(T::from_bits(static_cast<std::uint16_t>(bits))));
    const bool last = bits + 1 == infinity;
    const double high = last ? first_past_the_end : float(T::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const auto middle = static_cast<float>((low + high) / 2);
    if (static_cast<double>(middle) != (low + high) / 2) continue;  // the middle of subnormal bfloat16 is no float
    const unsigned even = (bits & 1u) == 0 ? bits : bits + 1;
    for (const unsigned sign : {0u, 0x8000u}) {
      const float s = sign == 0 ? 1.0f : -1.0f;
      ASSERT_EQ(T(s * middle).bits(), sign | even) << bits;
      ASSERT_EQ(T(s * std::nextafter(middle, 0.0f)).bits(), sign | bits) << bits;
      ASSERT_EQ(T(s * std::nextafter(middle, INFINITY)).bits(), sign | (bits + 1)) << bits;
    }
  }
}

TEST(Half, HF2_EveryFloat16ConvertsExactlyAndBack) { check_every_value<float16>(5, 10); }
TEST(Half, HF2_EveryBfloat16ConvertsExactlyAndBack) { check_every_value<bfloat16>(8, 7); }
TEST(Half, HF1_Float16RoundsToNearestEven) { check_every_rounding<float16>(0x7c00u, 65536.0); }
TEST(Half, HF1_Bfloat16RoundsToNearestEven) { check_every_rounding<bfloat16>(0x7f80u, 0x1p128); }

TEST(Half, HF1_InfinityAndNaN) {
  EXPECT_EQ(float16(INFINITY).bits(), 0x7c00);
  EXPECT_EQ(float16(-1e30f).bits(), 0xfc00);
  EXPECT_EQ(bfloat16(-INFINITY).bits(), 0xff80);
  for (std::uint32_t bits : {0x7f800001u, 0xffc00000u, 0x7fffffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(float(float16(nan))));
    EXPECT_TRUE(std::isnan(float(bfloat16(nan))));
  }
}

TEST(Half, ArithmeticAndComparisonsGoThroughFloat) {
  float16 a = 1.5f;
  const float16 b = 0.25f;
  static_assert(std::is_same_v<decltype(a + b), float>);
  EXPECT_EQ(a + b, 1.75f);
  EXPECT_TRUE(a > b && a != b && a == 1.5f && -0.0f == float16(0.0f));
  a += b;
  a *= 2.0f;
  a -= 0.5f;
  a /= 3.0f;
  EXPECT_EQ(float(a), 1.0f);
  bfloat16 c = 256.0f;
  c += 1.0f;  // 257 has nine significant bits: the tie goes to the even 256
  EXPECT_EQ(float(c), 256.0f);
  EXPECT_FALSE(bfloat16(NAN) == bfloat16(NAN));
}

}  // namespace

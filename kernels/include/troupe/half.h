// The two 16-bit floating-point types: troupe::float16 (IEEE binary16) and troupe::bfloat16 (the upper half of a
// float).
//
// They are storage types: trivially copyable, two bytes, and every calculation happens in float. A value converts to
// float by itself and exactly; a float converts back with one rounding, to nearest, ties to even. So a + b is a float,
// a == b compares floats (NaN is unequal to everything, -0 equals +0), and a += b rounds once. Every function may be
// called from any thread and in constant expressions.
//
// HF-1  from float: round to nearest, ties to even; beyond the range gives infinity; NaN stays NaN (quiet).
// HF-2  to float: exact, subnormal numbers included.
// HF-3  The processor's own conversions (F16C, AVX-512 BF16) give the same bits; kernels rely on it.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace troupe {
namespace detail {

constexpr std::uint16_t float_to_half_bits(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(all >> 16 & 0x8000u);
  std::uint32_t bits = all & 0x7fffffffu;
  if (bits > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u | (bits >> 13 & 0x1ffu));
  if (bits >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // 65520 and more
  if (bits >= 0x38800000u) {                                                   // 2^-14 and more: normal
    bits += 0xfffu + (bits >> 13 & 1u);
    return static_cast<std::uint16_t>(sign | ((bits - 0x38000000u) >> 13));
  }
  if (bits <= 0x33000000u) return sign;  // 2^-25 and less: the tie goes to zero
  const std::uint32_t shift = 126u - (bits >> 23);
  const std::uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  const std::uint32_t kept = mantissa >> shift;
  const std::uint32_t lost = mantissa & ((1u << shift) - 1u);
  const std::uint32_t half = 1u << (shift - 1u);
  return static_cast<std::uint16_t>(sign | (kept + (lost > half || (lost == half && (kept & 1u) != 0) ? 1u : 0u)));
}

constexpr float half_bits_to_float(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t exponent = half >> 10 & 0x1fu;
  const std::uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0x1fu)
    return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0u));
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112u) << 23 | mantissa << 13);
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign != 0 ? -magnitude : magnitude;
}

constexpr std::uint16_t float_to_bfloat_bits(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

constexpr float bfloat_bits_to_float(std::uint16_t half) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

}  // namespace detail

/// IEEE 754 binary16: 11 significant bits, largest value 65504.
class float16 {
 public:
  float16() = default;
  constexpr float16(float value) : bits_(detail::float_to_half_bits(value)) {}
  constexpr operator float() const { return detail::half_bits_to_float(bits_); }

  static constexpr float16 from_bits(std::uint16_t bits) {
    float16 out{};
    out.bits_ = bits;
    return out;
  }
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }

  constexpr float16& operator+=(float other) { return *this = float16(float(*this) + other); }
  constexpr float16& operator-=(float other) { return *this = float16(float(*this) - other); }
  constexpr float16& operator*=(float other) { return *this = float16(float(*this) * other); }
  constexpr float16& operator/=(float other) { return *this = float16(float(*this) / other); }

 private:
  std::uint16_t bits_;
};

/// The upper 16 bits of a float: its range with 8 significant bits.
class bfloat16 {
 public:
  bfloat16() = default;
  constexpr bfloat16(float value) : bits_(detail::float_to_bfloat_bits(value)) {}
  constexpr operator float() const { return detail::bfloat_bits_to_float(bits_); }

  static constexpr bfloat16 from_bits(std::uint16_t bits) {
    bfloat16 out{};
    out.bits_ = bits;
    return out;
  }
  [[nodiscard]] constexpr std::uint16_t bits() const { return bits_; }

  constexpr bfloat16& operator+=(float other) { return *this = bfloat16(float(*this) + other); }
  constexpr bfloat16& operator-=(float other) { return *this = bfloat16(float(*this) - other); }
  constexpr bfloat16& operator*=(float other) { return *this = bfloat16(float(*this) * other); }
  constexpr bfloat16& operator/=(float other) { return *this = bfloat16(float(*this) / other); }

 private:
  std::uint16_t bits_;
};

static_assert(sizeof(float16) == 2 && std::is_trivially_copyable_v<float16>);
static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<bfloat16>);

}  // namespace troupe

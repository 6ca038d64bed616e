// Element types of arrays that are known only at run time. Pure, any thread.
//
// DT-1  The numbers are part of messages between ranks: they never change, new ones are added at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <troupe/half.h>

namespace troupe::kernels {

enum class DType : std::uint8_t {
  kF64 = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kI8 = 4,
  kU8 = 5,
  kI32 = 6,
  kU32 = 7,
  kI64 = 8,
  kU64 = 9,
};
inline constexpr std::size_t kDTypeCount = 10;

/// Bytes of one element; 0 for a number that is no type.
[[nodiscard]] constexpr std::size_t size_of(DType type) noexcept {
  switch (type) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64: return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32: return 4;
    case DType::kF16:
    case DType::kBF16: return 2;
    case DType::kI8:
    case DType::kU8: return 1;
  }
  return 0;
}

/// "float32", "bfloat16", "uint8" ...; "unknown" for a number that is no type.
[[nodiscard]] constexpr std::string_view name_of(DType type) noexcept {
  switch (type) {
    case DType::kF64: return "float64";
    case DType::kF32: return "float32";
    case DType::kF16: return "float16";
    case DType::kBF16: return "bfloat16";
    case DType::kI8: return "int8";
    case DType::kU8: return "uint8";
    case DType::kI32: return "int32";
    case DType::kU32: return "uint32";
    case DType::kI64: return "int64";
    case DType::kU64: return "uint64";
  }
  return "unknown";
}

[[nodiscard]] constexpr bool is_floating(DType type) noexcept { return type <= DType::kBF16; }

namespace detail {
template <class T>
constexpr bool is_element() {
  if constexpr (std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, float16> ||
                std::is_same_v<T, bfloat16>)
    return true;
  else
    return std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) != 2;
}
}  // namespace detail

/// What arrays may hold. Integers count by size and sign: long and long long are both int64.
template <class T>
concept Element = detail::is_element<std::remove_cv_t<T>>();

template <Element T>
[[nodiscard]] constexpr DType dtype_of() noexcept {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, double>) return DType::kF64;
  else if constexpr (std::is_same_v<U, float>) return DType::kF32;
  else if constexpr (std::is_same_v<U, float16>) return DType::kF16;
  else if constexpr (std::is_same_v<U, bfloat16>) return DType::kBF16;
  else if constexpr (sizeof(U) == 1) return std::is_signed_v<U> ? DType::kI8 : DType::kU8;
  else if constexpr (sizeof(U) == 4) return std::is_signed_v<U> ? DType::kI32 : DType::kU32;
  else return std::is_signed_v<U> ? DType::kI64 : DType::kU64;
}

}  // namespace troupe::kernels

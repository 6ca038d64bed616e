// The element types of observations, actions and samples, by NumPy's names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <troupe/result.h>

namespace rl {

enum class DType : std::uint8_t { kBool, kUint8, kInt32, kInt64, kFloat32, kFloat64 };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);
/// "bool", "uint8", "int32", "int64", "float32", "float64".
[[nodiscard]] std::string_view name_of(DType dtype);
/// InvalidArgumentError that lists the names when there is none such.
[[nodiscard]] troupe::Result<DType> dtype_of(std::string_view name);

/// The DType of a C++ type: dtype_for<float> is kFloat32. A bool is one byte, 0 or 1.
template <class T>
inline constexpr DType dtype_for = [] { static_assert(sizeof(T) == 0, "no such element type"); }();
template <> inline constexpr DType dtype_for<bool> = DType::kBool;
template <> inline constexpr DType dtype_for<std::uint8_t> = DType::kUint8;
template <> inline constexpr DType dtype_for<std::int32_t> = DType::kInt32;
template <> inline constexpr DType dtype_for<std::int64_t> = DType::kInt64;
template <> inline constexpr DType dtype_for<float> = DType::kFloat32;
template <> inline constexpr DType dtype_for<double> = DType::kFloat64;

}  // namespace rl

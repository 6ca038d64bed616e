// The reference casts, and the choice of a version.
#include "kernels/cpu/copy/copy.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace troupe::kernels {
namespace {

template <class T>
constexpr bool kIsHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

// Toward zero, with the last bit set when anything was lost: rounding that to 16 bits is rounding the double.
float round_to_odd(double value) {
  const auto nearest = static_cast<float>(value);
  if (static_cast<double>(nearest) == value || std::isnan(value)) return nearest;
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

template <class To, class From>
To convert(From value) {
  if constexpr (kIsHalf<From> && !std::is_same_v<From, To>) {
    return convert<To, float>(value);
  } else if constexpr (kIsHalf<To> && !std::is_same_v<From, To>) {
    if constexpr (std::is_same_v<From, float>) return To(value);
    else return To(round_to_odd(static_cast<double>(value)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    // 2^n and -2^n are exact in both floating types; the limits themselves may not be.
    constexpr auto kEnd = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * From{2};
    if (!(value == value)) return 0;
    if (value >= kEnd) return std::numeric_limits<To>::max();
    if (value < static_cast<From>(std::numeric_limits<To>::min())) return std::numeric_limits<To>::min();
    return static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void cast_range(std::byte* out, const std::byte* in, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    From value;
    std::memcpy(&value, in + i * sizeof(From), sizeof(From));
    const To result = convert<To, From>(value);
    std::memcpy(out + i * sizeof(To), &result, sizeof(To));
  }
}

template <class To>
detail::CastFunction cast_to(DType from) {
  switch (from) {
    case DType::kF64: return &cast_range<To, double>;
    case DType::kF32: return &cast_range<To, float>;
    case DType::kF16: return &cast_range<To, float16>;
    case DType::kBF16: return &cast_range<To, bfloat16>;
    case DType::kI8: return &cast_range<To, std::int8_t>;
    case DType::kU8: return &cast_range<To, std::uint8_t>;
    case DType::kI32: return &cast_range<To, std::int32_t>;
    case DType::kU32: return &cast_range<To, std::uint32_t>;
    case DType::kI64: return &cast_range<To, std::int64_t>;
    case DType::kU64: return &cast_range<To, std::uint64_t>;
  }
  return nullptr;
}

const detail::CopyVersion* copy_version(Isa isa) {
  if (isa == Isa::kAvx512 && isa_supported(isa) && detail::copy_avx512() != nullptr) return detail::copy_avx512();
  if (isa != Isa::kReference && isa_supported(Isa::kAvx2)) return detail::copy_avx2();
  return nullptr;
}

// How many elements from the start a vector version has converted.
std::size_t cast_vector(const detail::CopyVersion& version, std::byte* out, DType to, const std::byte* in, DType from,
                        std::size_t count) {
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % alignof(float) == 0; };
  if (to == DType::kF32 && aligned(out)) {
    auto* floats = reinterpret_cast<float*>(out);
    if (from == DType::kF16) return version.half_to_float(floats, in, count);
    if (from == DType::kBF16) return version.bfloat_to_float(floats, in, count);
  } else if (from == DType::kF32 && aligned(in)) {
    const auto* floats = reinterpret_cast<const float*>(in);
    if (to == DType::kF16) return version.float_to_half(out, floats, count);
    if (to == DType::kBF16) return version.float_to_bfloat(out, floats, count);
  }
  return 0;
}

}  // namespace

detail::CastFunction detail::cast_reference(DType to, DType from) {
  switch (to) {
    case DType::kF64: return cast_to<double>(from);
    case DType::kF32: return cast_to<float>(from);
    case DType::kF16: return cast_to<float16>(from);
    case DType::kBF16: return cast_to<bfloat16>(from);
    case DType::kI8: return cast_to<std::int8_t>(from);
    case DType::kU8: return cast_to<std::uint8_t>(from);
    case DType::kI32: return cast_to<std::int32_t>(from);
    case DType::kU32: return cast_to<std::uint32_t>(from);
    case DType::kI64: return cast_to<std::int64_t>(from);
    case DType::kU64: return cast_to<std::uint64_t>(from);
  }
  return nullptr;
}

constexpr std::size_t kLine = 64, kStreamBlock = 256;

void copy(Isa isa, void* out, const void* in, std::size_t bytes, const CopyOptions& options) {
  const detail::CopyVersion* version = options.stream ? copy_version(isa) : nullptr;
  if (bytes == 0) return;
  if (version == nullptr || bytes < 2 * kStreamBlock) {
    std::memcpy(out, in, bytes);
    return;
  }
  auto* to = static_cast<std::byte*>(out);
  const auto* from = static_cast<const std::byte*>(in);
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t body = (bytes - head) / kStreamBlock * kStreamBlock;
  std::memcpy(to, from, head);
  version->stream(to + head, from + head, body);
  std::memcpy(to + head + body, from + head + body, bytes - head - body);
}

void copy(void* out, const void* in, std::size_t bytes, const CopyOptions& options) {
  copy(best_isa(), out, in, bytes, options);
}

void copy_both(Isa isa, const CopyJob& first, const CopyJob& second, const CopyOptions& options) {
  const detail::CopyVersion* version = copy_version(isa);
  const auto *from = static_cast<const std::byte*>(first.in), *other_from = static_cast<const std::byte*>(second.in);
  auto *to = static_cast<std::byte*>(first.out), *other_to = static_cast<std::byte*>(second.out);
  const std::size_t to_line = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t head = options.stream && first.bytes != 0 ? std::min(first.bytes, to_line) : 0;
  const std::size_t blocks = std::min(first.bytes - head, second.bytes) / kStreamBlock;
  const std::size_t body = version != nullptr ? blocks * kStreamBlock : 0;
  if (head != 0) std::memcpy(to, from, head);
  if (body != 0) version->both(to + head, from + head, other_to, other_from, body, options.stream);
  if (const std::size_t done = head + body; done != first.bytes)
    copy(isa, to + done, from + done, first.bytes - done, options);
  if (body != second.bytes) copy(isa, other_to + body, other_from + body, second.bytes - body);
}

void copy_both(const CopyJob& first, const CopyJob& second, const CopyOptions& options) {
  copy_both(best_isa(), first, second, options);
}

void cast(Isa isa, void* out, DType to, const void* in, DType from, std::size_t count) {
  const detail::CastFunction rest = detail::cast_reference(to, from);
  if (rest == nullptr || count == 0) return;
  auto* target = static_cast<std::byte*>(out);
  const auto* source = static_cast<const std::byte*>(in);
  if (to == from) {
    if (out != in) std::memcpy(out, in, count * size_of(to));
    return;
  }
  const detail::CopyVersion* version = copy_version(isa);
  const std::size_t done = version != nullptr ? cast_vector(*version, target, to, source, from, count) : 0;
  rest(target, source, done, count);
}

void cast(void* out, DType to, const void* in, DType from, std::size_t count) {
  cast(best_isa(), out, to, in, from, count);
}

}  // namespace troupe::kernels

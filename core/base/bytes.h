// Views of bytes, and fixed-width little-endian integers in them.
#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace troupe {

using ByteView = std::span<const std::byte>;
using ByteSpan = std::span<std::byte>;

static_assert(std::endian::native == std::endian::little,
              "the wire is little-endian and integers are copied as they lie in memory");

/// Unaligned access; the caller knows that sizeof(T) bytes are there.
template <std::integral T> T load_little(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <std::integral T> void store_little(std::byte* to, T value) { std::memcpy(to, &value, sizeof value); }

inline ByteView as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string_view as_text(ByteView bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace troupe

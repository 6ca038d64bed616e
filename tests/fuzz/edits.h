// What a fuzzer does to a valid encoding: a few edits that its input names. Bytes without meaning are refused by the
// first check of a decoder; an encoding with one wrong count reaches the last.
//
//   | how many (mod 8; 0: the encoding as it is) | edit | edit | ...      an edit: | what | place, 4 bytes | value |
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace troupe::fuzz {

/// A fuzzer's input, read from the front; zeros when it is used up.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : bytes_(data, size) {}
  bool empty() const { return bytes_.empty(); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(number(1)); }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    bytes = std::min(bytes, bytes_.size());
    if (bytes != 0) std::memcpy(&value, bytes_.data(), bytes);
    bytes_ = bytes_.subspan(bytes);
    return value;
  }
  /// The rest, as it is.
  std::vector<std::byte> rest() {
    const auto bytes = std::as_bytes(std::exchange(bytes_, {}));
    return {bytes.begin(), bytes.end()};
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Half of them close to an end: there stand the counts, and between them often numbers without a rule.
inline std::size_t place_in(std::size_t size, std::uint64_t where) {
  const std::size_t close = where / 4 % std::min<std::size_t>(size, 512);
  if (where % 4 == 0) return close;
  return where % 4 == 1 ? size - 1 - close : where / 4 % size;
}

inline void edit(std::vector<std::byte>& bytes, Input& input) {
  static constexpr std::uint64_t kEdges[] = {0,          1,          2,          0x7F, 0x80,       0xFF,
                                             0xFFFF,     1 << 20,    0x03FFFFFF, ~0u,  0x7FFFFFFF, 0x80000000,
                                             1ull << 32, 1ull << 40, 1ull << 62, ~0ull};
  const std::uint8_t what = input.byte();
  const std::size_t place = bytes.empty() ? 0 : place_in(bytes.size(), input.number(4));
  const auto put = [&](std::uint64_t value, std::size_t width) {
    if (!bytes.empty()) std::memcpy(bytes.data() + place, &value, std::min(width, bytes.size() - place));
  };
  const std::uint8_t value = input.byte();
  switch (what % 8) {
    case 0: put(value, 1); break;
    case 1: put(bytes.empty() ? 0 : std::to_integer<unsigned>(bytes[place]) ^ 1u << value % 8, 1); break;
    case 2: put(kEdges[value % 16], 4); break;
    case 3: put(kEdges[value % 16], 8); break;
    case 4: put(input.number(4), 4); break;
    case 5: bytes.resize(place); break;
    case 6: bytes.erase(bytes.begin() + std::ptrdiff_t(place),
                        bytes.begin() + std::ptrdiff_t(std::min<std::size_t>(place + value % 16, bytes.size())));
      break;
    default: bytes.insert(bytes.begin() + std::ptrdiff_t(place), value % 32, std::byte(input.byte()));
  }
}

/// The encoding after the edits of the input. True: nothing was done to it.
inline bool edit_all(std::vector<std::byte>& bytes, Input& input) {
  const std::vector<std::byte> before = bytes;
  for (unsigned n = input.byte() % 8; n > 0; --n) edit(bytes, input);
  return bytes == before;
}

/// A heap block of exactly those bytes: a sanitizer sees the first byte beyond.
class Exact {
 public:
  explicit Exact(std::span<const std::byte> bytes) : memory_(new std::byte[bytes.size()]), size_(bytes.size()) {
    if (size_ != 0) std::memcpy(memory_, bytes.data(), size_);
  }
  ~Exact() { delete[] memory_; }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  std::span<const std::byte> view() const { return {memory_, size_}; }

 private:
  std::byte* memory_;
  std::size_t size_;
};

}  // namespace troupe::fuzz

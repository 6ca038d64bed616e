#include "apps/common/tensorboard/records.h"

#include <array>
#include <bit>
#include <cstddef>

namespace apps::tensorboard {
namespace {

// A table of bytes is quick enough: a run writes some kilobytes a second.
constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? 0x82f63b78U : 0U);
    table[i] = value;
  }
  return table;
}();

void put_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(static_cast<unsigned char>(value >> (8 * i))));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t value = 0xffffffffU;
  for (const char c : bytes) value = (value >> 8) ^ kCrcTable[(value ^ static_cast<unsigned char>(c)) & 0xffU];
  return ~value;
}

std::uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8U; }

std::string record(std::string_view payload) {
  std::string out;
  out.reserve(payload.size() + 16);
  put_little_endian(out, payload.size(), 8);
  put_little_endian(out, masked_crc32c(out), 4);
  out += payload;
  put_little_endian(out, masked_crc32c(payload), 4);
  return out;
}

}  // namespace apps::tensorboard

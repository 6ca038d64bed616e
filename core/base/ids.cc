#include "core/base/ids.h"

namespace troupe {
namespace detail {

std::string hex(std::uint64_t high, std::uint64_t low) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[high >> (4 * i) & 15];
    text[31 - i] = kDigits[low >> (4 * i) & 15];
  }
  return text;
}

}  // namespace detail

std::string to_string(ProcessId id) {
  if (id == kHead) return "head";
  return std::to_string(id.node) + (id.is_daemon() ? "/daemon" : "/" + std::to_string(id.serial));
}

}  // namespace troupe

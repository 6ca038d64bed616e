#include "apps/rl/actors/messages.h"

namespace rl {

std::vector<SampleView> DrawnBatches::views() const {
  std::vector<SampleView> out;
  const std::byte* at = memory.data();
  for (const std::uint64_t count : rows) {
    SampleLayout layout(columns, count);
    const std::size_t bytes = layout.bytes();
    out.push_back({std::move(layout), at});
    at += bytes;
  }
  return out;
}

}  // namespace rl

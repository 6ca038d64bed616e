#include "collective/device/operation_memory.h"

namespace troupe::collective {

using detail::Kind;

Uses uses_of(const detail::Operation& operation, int rank) {
  const bool root = operation.peer == rank;
  switch (operation.kind) {
    case Kind::kBroadcast: return {.out = operation.in_count, .reads_output = root};
    case Kind::kReduce: return {.in = operation.in_count, .out = root ? operation.out_count : 0};
    case Kind::kGather:
    case Kind::kGatherV: return {.in = operation.in_count, .out = root ? operation.out_count : 0};
    case Kind::kScatter:
    case Kind::kScatterV: return {.in = root ? operation.in_count : 0, .out = operation.out_count};
    default: return {.in = operation.in_count, .out = operation.out_count};
  }
}

Side side_of(const detail::Operation& operation, int rank, const GpuDevice* device) {
  const auto on_device = [&](const void* pointer) {
    return device && device->side_of(pointer) != GpuDevice::Side::kHost;
  };
  const Uses uses = uses_of(operation, rank);
  bool host = false, gpu = false;
  const auto look = [&](const void* pointer, std::size_t count) {
    if (count != 0) (on_device(pointer) ? gpu : host) = true;
  };
  look(operation.out, uses.out);
  if (operation.in != operation.out || uses.out == 0) look(operation.in, uses.in);
  if (host && gpu) return Side::kBoth;
  if (!host && !gpu) gpu = operation.on_device || on_device(operation.in) || on_device(operation.out);
  return gpu ? Side::kDevice : Side::kHost;
}

}  // namespace troupe::collective

#include "collective/signature.h"

#include <bit>

#include <fmt/format.h>

#include "kernels/dtype.h"
#include "kernels/reduce.h"

namespace troupe::collective {

using detail::Kind;

Signature signature_of(const detail::Operation& operation) {
  Signature s;
  s.what = std::uint64_t(operation.kind) | std::uint64_t(operation.type) << 8 | std::uint64_t(operation.op.kind()) << 16 | std::uint64_t(std::uint16_t(operation.peer)) << 24;
  if (s.scaled()) s.scale = std::bit_cast<std::uint64_t>(operation.op.scale());
  switch (operation.kind) {
    case Kind::kReduceScatter:
    case Kind::kScatter: s.count = operation.out_count; break;
    case Kind::kAllToAllV: break;
    case Kind::kAllGatherV:
    case Kind::kGatherV:
    case Kind::kScatterV:
      for (std::size_t count : operation.counts) s.count = (s.count ^ count) * 0x100000001b3u + 1;
      break;
    default: s.count = operation.in_count;
  }
  return s;
}

std::string describe(const Signature& s) {
  const auto kind = Kind(s.what & 0xff);
  const auto type = kernels::DType(s.what >> 8 & 0xff);
  const auto op = kernels::ReduceOp(s.what >> 16 & 0xff);
  std::string text = detail::kind_name(kind);
  if (kind == Kind::kBarrier || kind == Kind::kSplit) return text;
  const bool hashed = kind == Kind::kAllGatherV || kind == Kind::kGatherV || kind == Kind::kScatterV;
  if (hashed) text += fmt::format(" of {} (counts {:x})", kernels::name_of(type), s.count);
  else if (kind == Kind::kAllToAllV) text += fmt::format(" of {}", kernels::name_of(type));
  else text += fmt::format(" of {} {}", s.count, kernels::name_of(type));
  if (kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter)
    text += s.scaled() ? fmt::format(" ({} by {})", kernels::name_of(op), std::bit_cast<double>(s.scale)) : fmt::format(" ({})", kernels::name_of(op));
  if (kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather || kind == Kind::kScatter || kind == Kind::kGatherV || kind == Kind::kScatterV)
    text += fmt::format(", root {}", s.what >> 24 & 0xffff);
  if (s.what & Signature::kInDeviceMemory) text += " in device memory";
  return text;
}

}  // namespace troupe::collective

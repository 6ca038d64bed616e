#include "collective/base/signature.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/reduce/reduce.h"

namespace troupe::collective {

using detail::Kind;

namespace {

constexpr std::uint64_t kPrime = (std::uint64_t(1) << 61) - 1;
constexpr std::uint64_t kIndexMax = 512;  // ranks

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  return std::uint64_t(static_cast<unsigned __int128>(a) * b % kPrime);
}
std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return (a % kPrime + kPrime - b % kPrime) % kPrime; }
std::uint64_t inverse(std::uint64_t a) {
  std::uint64_t result = 1;
  for (std::uint64_t power = kPrime - 2; power != 0; power >>= 1, a = times(a, a))
    if (power & 1) result = times(result, a);
  return result;
}

/// Of count i, never nothing: the steps of splitmix64.
std::uint64_t weight(std::uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15u;
  i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
  i = (i ^ i >> 27) * 0x94d049bb133111ebu;
  return std::max<std::uint64_t>(1, (i ^ i >> 31) % kPrime);
}

void add_counts(Signature& s, const std::vector<std::size_t>& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::uint64_t weighted = times(weight(i), counts[i] % kPrime);
    s.count = (s.count + weighted) % kPrime;
    s.scale = (s.scale + times(weighted, i + 1)) % kPrime;
  }
}

/// Which count differs, and by how much; nothing to say where the operations differ otherwise.
std::string describe_counts(const Signature& first, int other, const Signature& second) {
  if (first.what != second.what || !first.counted()) return {};
  const std::uint64_t by = minus(second.count, first.count), weighted = minus(second.scale, first.scale);
  for (std::uint64_t i = 0; i < kIndexMax; ++i) {
    if (times(by, i + 1) != weighted) continue;
    const std::uint64_t more = times(by, inverse(weight(i))), less = kPrime - more;
    return fmt::format("; the counts differ at index {}, where rank {} has {} {}", i, other, std::min(more, less),
                       more < less ? "more" : "less");
  }
  return "; the counts differ at more than one index";
}

}  // namespace

bool Signature::counted() const {
  const auto kind = Kind(what & 0xff);
  return kind == Kind::kAllGatherV || kind == Kind::kGatherV || kind == Kind::kScatterV;
}

Signature signature_of(const detail::Operation& operation) {
  Signature s;
  s.what = std::uint64_t(operation.kind) | std::uint64_t(operation.type) << 8 |
           std::uint64_t(operation.op.kind()) << 16 | std::uint64_t(std::uint16_t(operation.peer)) << 24;
  if (s.scaled()) s.scale = std::bit_cast<std::uint64_t>(operation.op.scale());
  switch (operation.kind) {
    case Kind::kReduceScatter:
    case Kind::kScatter: s.count = operation.out_count; break;
    case Kind::kAllToAllV: break;
    case Kind::kAllGatherV:
    case Kind::kGatherV:
    case Kind::kScatterV: add_counts(s, operation.counts); break;
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
  if (s.counted()) text += fmt::format(" of {} (counts {:x})", kernels::name_of(type), s.count);
  else if (kind == Kind::kAllToAllV) text += fmt::format(" of {}", kernels::name_of(type));
  else text += fmt::format(" of {} {}", s.count, kernels::name_of(type));
  if (kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter)
    text += s.scaled() ? fmt::format(" ({} by {})", kernels::name_of(op), std::bit_cast<double>(s.scale))
                       : fmt::format(" ({})", kernels::name_of(op));
  if (kind == Kind::kReduce || kind == Kind::kBroadcast || kind == Kind::kGather || kind == Kind::kScatter ||
      kind == Kind::kGatherV || kind == Kind::kScatterV)
    text += fmt::format(", root {}", s.what >> 24 & 0xffff);
  if (s.what & Signature::kInDeviceMemory) text += " in device memory";
  return text;
}

std::string describe_mismatch(int rank, const Signature& own, int other, const Signature& theirs) {
  if (rank > other) return describe_mismatch(other, theirs, rank, own);
  return fmt::format("rank {} called {}, rank {} called {}{}", rank, describe(own), other, describe(theirs),
                     describe_counts(own, other, theirs));
}

}  // namespace troupe::collective

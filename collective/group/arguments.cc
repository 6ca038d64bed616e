#include "collective/group/arguments.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace troupe::collective::detail {
namespace {

[[noreturn]] void wrong(const Operation& operation, const std::string& what) {
  throw InvalidArgumentError(fmt::format("{}: {}", kind_name(operation.kind), what));
}

void expect(const Operation& operation, const char* which, std::size_t size, std::size_t wanted) {
  if (size != wanted) wrong(operation, fmt::format("{} has {} elements, and must have {}", which, size, wanted));
}

std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF64: case DType::kI64: case DType::kU64: return 8;
    case DType::kF16: case DType::kBF16: return 2;
    case DType::kI8: case DType::kU8: return 1;
    default: return 4;
  }
}

/// What so many elements take must fit into memory, or nothing after this means anything.
std::size_t checked_count(const Operation& operation, std::size_t count) {
  if (count > std::size_t(PTRDIFF_MAX) / size_of(operation.type))
    wrong(operation,
          fmt::format("{} elements of {} bytes are more than memory can hold", count, size_of(operation.type)));
  return count;
}
std::size_t times(const Operation& operation, std::size_t count, std::size_t ranks) {
  std::size_t product = 0;
  if (__builtin_mul_overflow(count, ranks, &product))
    wrong(operation, fmt::format("{} elements for each of {} ranks are more than memory can hold", count, ranks));
  return checked_count(operation, product);
}
std::size_t sum(const Operation& operation, const std::vector<std::size_t>& counts) {
  std::size_t total = 0;
  for (std::size_t count : counts)
    if (__builtin_add_overflow(total, count, &total))
      wrong(operation, "the sum of the counts is more than memory can hold");
  return checked_count(operation, total);
}

/// Input and output may be the same memory where that means something, else they are apart.
void expect_apart(const Operation& operation, std::ptrdiff_t in_at_out) {
  const auto in = reinterpret_cast<std::uintptr_t>(operation.in), out = reinterpret_cast<std::uintptr_t>(operation.out);
  const std::size_t in_bytes = operation.in_count * size_of(operation.type),
                    out_bytes = operation.out_count * size_of(operation.type);
  if (in_bytes == 0 || out_bytes == 0 || in + in_bytes <= out || out + out_bytes <= in) return;
  if (in_at_out == PTRDIFF_MAX || in != out + std::uintptr_t(in_at_out) * size_of(operation.type))
    wrong(operation, "input and output overlap");
}

}  // namespace

void check_arguments(const Operation& operation, const RankFacts& own) {
  const int size = own.ranks, rank = own.rank;
  if (operation.on_device && !own.takes_device_memory)
    wrong(operation,
          "a DeviceArray in a group that is not over NCCL: make the group with Backend::kNccl or of actors that all "
          "hold a GPU, or copy to and from host memory");
  const auto ranks = std::size_t(size), me = std::size_t(rank);
  const auto check_peer = [&](const char* what) {
    if (operation.peer < 0 || operation.peer >= size)
      wrong(operation, fmt::format("{} {} is not one of {} ranks", what, operation.peer, size));
  };
  const auto check_counts = [&](const std::vector<std::size_t>& counts) {
    if (counts.size() != ranks) wrong(operation, fmt::format("{} counts for {} ranks", counts.size(), size));
  };
  const std::size_t in = operation.in_count, out = operation.out_count;
  const bool root = operation.peer == rank;
  if (operation.op.kind() > Op::kPreMulSum)
    wrong(operation, fmt::format("there is no reduction {}", int(operation.op.kind())));
  checked_count(operation, std::max(in, out));
  const auto before = [&](const std::vector<std::size_t>& counts) {
    return std::ptrdiff_t(std::accumulate(counts.begin(), counts.begin() + rank, std::size_t(0)));
  };
  switch (operation.kind) {
    case Kind::kAllReduce: expect(operation, "the output", out, in); return expect_apart(operation, 0);
    case Kind::kReduce:
      check_peer("root");
      if (root) expect(operation, "the output", out, in), expect_apart(operation, 0);
      return;
    case Kind::kBroadcast: return check_peer("root");
    case Kind::kAllGather:
      expect(operation, "the output", out, times(operation, in, ranks));
      return expect_apart(operation, std::ptrdiff_t(in * me));
    case Kind::kReduceScatter:
      expect(operation, "the input", in, times(operation, out, ranks));
      return expect_apart(operation, -std::ptrdiff_t(out * me));
    case Kind::kAllToAll:
      expect(operation, "the output", out, in);
      if (in % ranks != 0) wrong(operation, fmt::format("{} elements do not divide into {} parts", in, size));
      return expect_apart(operation, PTRDIFF_MAX);
    case Kind::kGather:
      check_peer("root");
      if (const auto all = times(operation, in, ranks); root)
        expect(operation, "the output", out, all), expect_apart(operation, std::ptrdiff_t(in * me));
      return;
    case Kind::kScatter:
      check_peer("root");
      if (const auto all = times(operation, out, ranks); root)
        expect(operation, "the input", in, all), expect_apart(operation, -std::ptrdiff_t(out * me));
      return;
    case Kind::kAllGatherV:
    case Kind::kGatherV:
      check_counts(operation.counts);
      if (operation.kind == Kind::kGatherV) check_peer("root");
      expect(operation, "the input", in, operation.counts[me]);
      if (const auto all = sum(operation, operation.counts); operation.kind == Kind::kAllGatherV || root)
        expect(operation, "the output", out, all), expect_apart(operation, before(operation.counts));
      return;
    case Kind::kScatterV:
      check_counts(operation.counts);
      check_peer("root");
      expect(operation, "the output", out, operation.counts[me]);
      if (const auto all = sum(operation, operation.counts); root)
        expect(operation, "the input", in, all), expect_apart(operation, -before(operation.counts));
      return;
    case Kind::kAllToAllV:
      check_counts(operation.counts);
      check_counts(operation.recv_counts);
      expect(operation, "the input", in, sum(operation, operation.counts));
      expect(operation, "the output", out, sum(operation, operation.recv_counts));
      return expect_apart(operation, PTRDIFF_MAX);
    case Kind::kSend:
    case Kind::kRecv: return check_peer("peer");
    case Kind::kBarrier:
    case Kind::kSplit: return;
  }
}

}  // namespace troupe::collective::detail

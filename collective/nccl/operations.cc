#include "collective/nccl/operations.h"

#include <cstring>
#include <numeric>

#include "kernels/cpu/isa/dtype.h"
#include <troupe/half.h>

namespace troupe::collective {
namespace {

using detail::DType;
using detail::Kind;

int type_of(DType type) {
  switch (type) {
    case DType::kF64: return kNcclFloat64;
    case DType::kF32: return kNcclFloat32;
    case DType::kF16: return kNcclFloat16;
    case DType::kBF16: return kNcclBfloat16;
    case DType::kI8: return kNcclInt8;
    case DType::kU8: return kNcclUint8;
    case DType::kI32: return kNcclInt32;
    case DType::kU32: return kNcclUint32;
    case DType::kI64: return kNcclInt64;
    case DType::kU64: return kNcclUint64;
  }
  return kNcclUint8;
}

struct Scalar {
  alignas(8) std::byte bytes[8] = {};
};

/// The factor of pre_mul_sum in the element's type.
Scalar scalar_of(double x, DType type) {
  Scalar out;
  const auto put = [&](auto value) { std::memcpy(out.bytes, &value, sizeof value); };
  const auto whole = static_cast<std::int64_t>(x);
  switch (type) {
    case DType::kF64: put(x); break;
    case DType::kF32: put(static_cast<float>(x)); break;
    case DType::kF16: put(float16(static_cast<float>(x))); break;
    case DType::kBF16: put(bfloat16(static_cast<float>(x))); break;
    case DType::kI8: case DType::kU8: put(static_cast<std::uint8_t>(whole)); break;
    case DType::kI32: case DType::kU32: put(static_cast<std::uint32_t>(whole)); break;
    case DType::kI64: case DType::kU64: put(whole); break;
  }
  return out;
}

int op_of(const NcclApi& nccl, NcclHandle comm, const detail::Operation& operation, int& op, std::vector<int>& made) {
  switch (operation.op.kind()) {
    case Op::kSum: op = kNcclSum; return kNcclSuccess;
    case Op::kProduct: op = kNcclProd; return kNcclSuccess;
    case Op::kMin: op = kNcclMin; return kNcclSuccess;
    case Op::kMax: op = kNcclMax; return kNcclSuccess;
    case Op::kAvg: op = kNcclAvg; return kNcclSuccess;
    case Op::kPreMulSum: break;
  }
  Scalar scalar = scalar_of(operation.op.scale(), operation.type);
  const int result =
      nccl.red_op_create_pre_mul_sum(&op, scalar.bytes, type_of(operation.type), kNcclScalarOnHost, comm);
  if (result == kNcclSuccess) made.push_back(op);
  return result;
}

/// Parts that go from rank to rank: sizes in elements, one for each peer; empty: nothing goes that way.
struct Parts {
  std::vector<std::size_t> send, receive;
  bool same_input = false;  ///< every peer is sent the whole input
};

Parts parts_of(const detail::Operation& operation, int rank, int ranks) {
  const auto n = static_cast<std::size_t>(ranks), me = static_cast<std::size_t>(rank),
             root = static_cast<std::size_t>(operation.peer);
  const auto equal = [&](std::size_t count) { return std::vector<std::size_t>(n, count); };
  const auto only = [&](std::size_t peer, std::size_t count) {
    std::vector<std::size_t> sizes(n, 0);
    sizes[peer] = count;
    return sizes;
  };
  switch (operation.kind) {
    case Kind::kAllToAll: return {equal(operation.in_count / n), equal(operation.in_count / n)};
    case Kind::kAllToAllV: return {operation.counts, operation.recv_counts};
    case Kind::kAllGatherV: return {equal(operation.in_count), operation.counts, true};
    case Kind::kGather:
      return {only(root, operation.in_count), me == root ? equal(operation.in_count) : std::vector<std::size_t>{},
              true};
    case Kind::kGatherV:
      return {only(root, operation.in_count), me == root ? operation.counts : std::vector<std::size_t>{}, true};
    case Kind::kScatter:
      return {me == root ? equal(operation.out_count) : std::vector<std::size_t>{}, only(root, operation.out_count)};
    case Kind::kScatterV:
      return {me == root ? operation.counts : std::vector<std::size_t>{}, only(root, operation.out_count)};
    default: return {};
  }
}

int enqueue_parts(const NcclApi& nccl, NcclHandle comm, const detail::Operation& operation, int rank, int ranks,
                  void* stream) {
  const Parts parts = parts_of(operation, rank, ranks);
  const std::size_t element = kernels::size_of(kernels::DType(operation.type));
  const int type = type_of(operation.type);
  const auto* in = static_cast<const std::byte*>(operation.in);
  auto* out = static_cast<std::byte*>(operation.out);
  int result = nccl.group_start();
  if (result != kNcclSuccess) return result;
  const auto keep = [&](int one) { if (result == kNcclSuccess || result == kNcclInProgress) result = one; };
  for (std::size_t peer = 0; peer < parts.send.size(); ++peer) {
    if (parts.send[peer] != 0) keep(nccl.send(in, parts.send[peer], type, static_cast<int>(peer), comm, stream));
    if (!parts.same_input) in += parts.send[peer] * element;
  }
  for (std::size_t peer = 0; peer < parts.receive.size(); ++peer) {
    if (parts.receive[peer] != 0) keep(nccl.recv(out, parts.receive[peer], type, static_cast<int>(peer), comm, stream));
    out += parts.receive[peer] * element;
  }
  const int ended = nccl.group_end();
  keep(ended);
  return result;
}

}  // namespace

int enqueue_on_nccl(const NcclApi& nccl, NcclHandle comm, const detail::Operation& operation, int rank, int ranks,
                    void* stream, std::vector<int>& made) {
  const int type = type_of(operation.type);
  int op = kNcclSum;
  if (operation.kind == Kind::kAllReduce || operation.kind == Kind::kReduce || operation.kind == Kind::kReduceScatter)
    if (const int result = op_of(nccl, comm, operation, op, made); result != kNcclSuccess) return result;
  switch (operation.kind) {
    case Kind::kAllReduce:
      return nccl.all_reduce(operation.in, operation.out, operation.in_count, type, op, comm, stream);
    case Kind::kReduce:
      return nccl.reduce(operation.in, operation.out, operation.in_count, type, op, operation.peer, comm, stream);
    case Kind::kReduceScatter:
      return nccl.reduce_scatter(operation.in, operation.out, operation.out_count, type, op, comm, stream);
    case Kind::kBroadcast:
      return nccl.broadcast(operation.in, operation.out, operation.in_count, type, operation.peer, comm, stream);
    case Kind::kAllGather: return nccl.all_gather(operation.in, operation.out, operation.in_count, type, comm, stream);
    default: return enqueue_parts(nccl, comm, operation, rank, ranks, stream);
  }
}

}  // namespace troupe::collective

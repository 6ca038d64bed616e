// What is put on a stream: collectives and messages. A rank's share runs on its stream's thread, and meets the others
// in World.
#include <cstring>
#include <utility>

#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/reduce/reduce.h"
#include "tests/collective/fake_cuda.h"
#include "tests/collective/fake_nccl_state.h"
#include <troupe/half.h>

namespace troupe::collective::testing::fake_nccl {
namespace {

using kernels::DType;
using kernels::ReduceOp;

DType type_of(int type) {
  constexpr DType kTypes[] = {DType::kI8,  DType::kU8,  DType::kI32, DType::kU32, DType::kI64,
                              DType::kU64, DType::kF16, DType::kF32, DType::kF64, DType::kBF16};
  return kTypes[type];
}
double factor_of(const void* scalar, DType type) {
  const auto as = [&]<class T>(T value) { std::memcpy(&value, scalar, sizeof value); return double(value); };
  switch (type) {
    case DType::kF64: return as(double());
    case DType::kF32: return as(float());
    case DType::kI8: return as(std::int8_t());
    case DType::kU8: return as(std::uint8_t());
    case DType::kI32: return as(std::int32_t());
    case DType::kU32: return as(std::uint32_t());
    case DType::kI64: return as(std::int64_t());
    case DType::kU64: return as(std::uint64_t());
    case DType::kF16: { float16 x; std::memcpy(&x, scalar, sizeof x); return float(x); }
    case DType::kBF16: { bfloat16 x; std::memcpy(&x, scalar, sizeof x); return float(x); }
  }
  return 0;
}

/// How a rank takes part in a collective.
struct Part {
  enum class Kind { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter } kind;
  const void* in;
  void* out;
  std::size_t count;
  int type, op, root;
  bool scaled = false;
  double factor = 1;
};

void combine(const Comm& comm, const Part& part, const std::vector<Bytes>& inputs, std::size_t first) {
  static constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin,
                                      ReduceOp::kAvg};
  const DType type = type_of(part.type);
  std::vector<const void*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data() + first * kernels::size_of(type));
  const ReduceOp op = part.scaled ? ReduceOp::kPreMulSum : kOps[part.op];
  kernels::reduce(kernels::Isa::kReference, part.out, pointers, part.count, type,
                  {op, part.factor, comm.world->ranks, false});
}

/// As a kernel does: on the stream, until all are there or it is aborted.
void execute(Comm& comm, const Part& part, std::uint64_t number) {
  World& world = *comm.world;
  const std::size_t element = kernels::size_of(type_of(part.type));
  const std::size_t read =
      part.count * element * (part.kind == Part::Kind::kReduceScatter ? std::size_t(world.ranks) : 1);
  const NcclFault fault = fault_at(NcclPoint::kExecute, comm.rank);
  std::unique_lock lock(world.mutex);
  if (fault.hangs) return world.changed.wait(lock, [&] { return comm.aborted.load(); });
  World::Slot& slot = world.slots[number];
  slot.inputs.resize(std::size_t(world.ranks));
  const auto* const in = static_cast<const std::byte*>(part.in);
  slot.inputs[std::size_t(comm.rank)] = Bytes(in, in + read);
  ++slot.come;
  world.changed.notify_all();
  world.changed.wait(lock, [&] { return slot.come == world.ranks || comm.aborted; });
  if (slot.come != world.ranks) return;
  switch (part.kind) {
    case Part::Kind::kAllReduce: combine(comm, part, slot.inputs, 0); break;
    case Part::Kind::kReduce: if (comm.rank == part.root) combine(comm, part, slot.inputs, 0); break;
    case Part::Kind::kReduceScatter: combine(comm, part, slot.inputs, part.count * std::size_t(comm.rank)); break;
    case Part::Kind::kBroadcast: std::memcpy(part.out, slot.inputs[std::size_t(part.root)].data(), read); break;
    case Part::Kind::kAllGather:
      for (std::size_t r = 0; r < slot.inputs.size(); ++r)
        std::memcpy(static_cast<std::byte*>(part.out) + r * read, slot.inputs[r].data(), read);
      break;
  }
  if (++slot.gone == world.ranks) world.slots.erase(number);
}

int collective(Part part, NcclHandle handle, void* stream) {
  const Entered entered(handle);
  if (!entered) return kNcclInvalidArgument;
  const CommPtr& comm = entered.comm();
  if (const int result = pass(NcclPoint::kLaunch, comm->rank); result != kNcclSuccess) {
    if (result != kNcclInvalidArgument) comm->error = result;
    return result;
  }
  {
    std::lock_guard lock(state().mutex);
    const auto factor = comm->factors.find(part.op);
    if ((part.scaled = factor != comm->factors.end())) part.factor = factor->second;
  }
  FakeCuda::enqueue(stream, [comm, part, number = ++comm->operations] { execute(*comm, part, number); });
  return kNcclInProgress;
}

struct Message {
  bool sends;
  const void* from;
  void* to;
  std::size_t bytes;
  int peer;
};
struct Group {
  int depth = 0;
  CommPtr comm;
  void* stream = nullptr;
  std::vector<Message> messages;
};
thread_local Group t_group;

void exchange(Comm& comm, const std::vector<Message>& messages) {
  World& world = *comm.world;
  const NcclFault fault = fault_at(NcclPoint::kExecute, comm.rank);
  std::unique_lock lock(world.mutex);
  if (fault.hangs) return world.changed.wait(lock, [&] { return comm.aborted.load(); });
  for (const Message& m : messages) {
    const auto* const from = static_cast<const std::byte*>(m.from);
    if (m.sends) world.mail[{comm.rank, m.peer}].emplace_back(from, from + m.bytes);
  }
  world.changed.notify_all();
  for (const Message& m : messages) {
    if (m.sends) continue;
    auto& box = world.mail[{m.peer, comm.rank}];
    world.changed.wait(lock, [&] { return !box.empty() || comm.aborted; });
    if (box.empty()) return;
    if (box.front().size() == m.bytes) std::memcpy(m.to, box.front().data(), m.bytes);
    box.pop_front();
  }
}

int group_end() {
  Group group = std::exchange(t_group, {});
  if (group.messages.empty()) return kNcclSuccess;
  if (const int result = pass(NcclPoint::kLaunch, group.comm->rank); result != kNcclSuccess)
    return group.comm->error = result, result;
  FakeCuda::enqueue(group.stream,
                    [comm = group.comm, messages = std::move(group.messages)] { exchange(*comm, messages); });
  return kNcclInProgress;
}
int message(const Message& one, NcclHandle handle, void* stream) {
  const Entered entered(handle);
  if (!entered || t_group.depth == 0) return kNcclInvalidUsage;
  t_group.comm = entered.comm();
  t_group.stream = stream;
  t_group.messages.push_back(one);
  return kNcclSuccess;
}
std::size_t bytes_of(std::size_t count, int type) { return count * kernels::size_of(type_of(type)); }

int create_pre_mul_sum(int* op, void* scalar, int type, int residence, NcclHandle handle) {
  const Entered entered(handle);
  if (!entered || residence != kNcclScalarOnHost) return kNcclInvalidArgument;
  std::lock_guard lock(state().mutex);
  *op = state().next_op++;
  ++state().made_operations;
  entered.comm()->factors[*op] = factor_of(scalar, type_of(type));
  return kNcclSuccess;
}
int destroy_op(int, NcclHandle handle) {  // the factor stays: the kernel has it by value
  const Entered entered(handle);
  std::lock_guard lock(state().mutex);
  --state().made_operations;
  return entered ? kNcclSuccess : kNcclInvalidArgument;
}

}  // namespace

void add_operations(NcclApi& api) {
  using Kind = Part::Kind;
  api.group_start = [] { return ++t_group.depth, kNcclSuccess; };
  api.group_end = group_end;
  api.all_reduce = [](const void* in, void* out, std::size_t count, int type, int op, NcclHandle comm, void* stream) {
    return collective({Kind::kAllReduce, in, out, count, type, op, 0}, comm, stream);
  };
  api.reduce = [](const void* in, void* out, std::size_t count, int type, int op, int root, NcclHandle comm,
                  void* stream) { return collective({Kind::kReduce, in, out, count, type, op, root}, comm, stream); };
  api.broadcast = [](const void* in, void* out, std::size_t count, int type, int root, NcclHandle comm, void* stream) {
    return collective({Kind::kBroadcast, in, out, count, type, 0, root}, comm, stream);
  };
  api.all_gather = [](const void* in, void* out, std::size_t count, int type, NcclHandle comm, void* stream) {
    return collective({Kind::kAllGather, in, out, count, type, 0, 0}, comm, stream);
  };
  api.reduce_scatter = [](const void* in, void* out, std::size_t count, int type, int op, NcclHandle comm,
                          void* stream) {
    return collective({Kind::kReduceScatter, in, out, count, type, op, 0}, comm, stream);
  };
  api.send = [](const void* in, std::size_t count, int type, int peer, NcclHandle comm, void* stream) {
    return message({true, in, nullptr, bytes_of(count, type), peer}, comm, stream);
  };
  api.recv = [](void* out, std::size_t count, int type, int peer, NcclHandle comm, void* stream) {
    return message({false, nullptr, out, bytes_of(count, type), peer}, comm, stream);
  };
  api.red_op_create_pre_mul_sum = create_pre_mul_sum;
  api.red_op_destroy = destroy_op;
}

}  // namespace troupe::collective::testing::fake_nccl

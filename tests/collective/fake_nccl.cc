#include "tests/collective/fake_nccl.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/dtype.h"
#include "kernels/reduce.h"
#include "tests/collective/fake_cuda.h"
#include <troupe/half.h>

namespace troupe::collective::testing {
namespace {

using kernels::DType;
using kernels::ReduceOp;
using Bytes = std::vector<std::byte>;

struct Comm;

/// What the ranks of one communicator share.
struct World {
  explicit World(int size) : ranks(size) {}
  struct Slot {
    std::vector<Bytes> inputs;
    int come = 0, gone = 0;
  };
  struct Splitting {
    struct One { int color, key, rank; NcclHandle* child; };
    std::vector<One> ones;
    bool over = false;
  };
  const int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  int joined = 0;
  std::map<std::uint64_t, Slot> slots;
  std::map<std::pair<int, int>, std::deque<Bytes>> mail;
  std::map<std::uint64_t, Splitting> splits;
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  std::atomic<int> error{kNcclSuccess};
  std::atomic<int> inside{0};
  std::atomic<bool> initialized{false}, aborted{false};
  std::uint64_t operations = 0, splits = 0;
  std::uint64_t splitting = 0;  // number of the split under way
  std::map<int, double> factors;
};
using CommPtr = std::shared_ptr<Comm>;

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<NcclFault(NcclPoint, int)> faults;
  bool released = false;
  std::map<NcclHandle, CommPtr> comms;
  std::map<std::uint64_t, std::shared_ptr<World>> worlds;
  std::uint64_t ids = 0;
  int next_op = 100, made_operations = 0, violations = 0, aborts = 0;
};
State& state() {
  static State& instance = *new State;
  return instance;
}

NcclFault fault_at(NcclPoint point, int rank) {
  std::function<NcclFault(NcclPoint, int)> faults;
  {
    std::lock_guard lock(state().mutex);
    faults = state().faults;
  }
  return faults ? faults(point, rank) : NcclFault{};
}
void hang() {
  std::unique_lock lock(state().mutex);
  state().changed.wait(lock, [] { return state().released; });
}
/// The result of a call; what hangs does so here.
int pass(NcclPoint point, int rank) {
  const NcclFault fault = fault_at(point, rank);
  if (fault.hangs) hang();
  return fault.result;
}

/// A communicator, entered by one thread at a time.
class Entered {
 public:
  explicit Entered(NcclHandle handle) {
    std::lock_guard lock(state().mutex);
    const auto found = state().comms.find(handle);
    if (found != state().comms.end()) comm_ = found->second;
    if (!comm_ || comm_->inside.fetch_add(1) != 0) ++state().violations;
  }
  ~Entered() { if (comm_) comm_->inside.fetch_sub(1); }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  const CommPtr& comm() const { return comm_; }
  explicit operator bool() const { return comm_ != nullptr; }

 private:
  CommPtr comm_;
};

NcclHandle make(std::shared_ptr<World> world, int rank) {
  auto comm = std::make_shared<Comm>();
  comm->world = std::move(world);
  comm->rank = rank;
  std::lock_guard lock(state().mutex);
  const NcclHandle handle = comm.get();
  state().comms.emplace(handle, std::move(comm));
  return handle;
}
CommPtr forget(NcclHandle handle) {
  std::lock_guard lock(state().mutex);
  const auto found = state().comms.find(handle);
  if (found == state().comms.end()) return ++state().violations, nullptr;
  CommPtr comm = std::move(found->second);
  state().comms.erase(found);
  return comm;
}

// ------------------------------------------------------------------------------------------------------------------------ life

int get_unique_id(NcclUniqueId* id) {
  if (const int result = pass(NcclPoint::kUniqueId, -1); result != kNcclSuccess) return result;
  std::lock_guard lock(state().mutex);
  *id = {};
  std::memcpy(id->internal, &++state().ids, sizeof state().ids);
  return kNcclSuccess;
}

int comm_init(NcclHandle* handle, int ranks, NcclUniqueId id, int rank, NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return kNcclInvalidArgument;
  if (const int result = pass(NcclPoint::kInit, rank); result != kNcclSuccess) return result;
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::shared_ptr<World> world;
  {
    std::lock_guard lock(state().mutex);
    auto& place = state().worlds[number];
    if (!place) place = std::make_shared<World>(ranks);
    world = place;
  }
  *handle = make(world, rank);
  std::lock_guard lock(world->mutex);
  ++world->joined;
  return kNcclInProgress;
}

/// The last one to come makes the children of all.
void finish_split(World::Splitting& split) {
  std::map<int, std::vector<World::Splitting::One>> colors;
  for (const auto& one : split.ones)
    if (one.color != kNcclNoColor) colors[one.color].push_back(one);
  for (auto& [color, members] : colors) {
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return std::tie(a.key, a.rank) < std::tie(b.key, b.rank); });
    auto world = std::make_shared<World>(int(members.size()));
    world->joined = world->ranks;
    for (std::size_t r = 0; r < members.size(); ++r) *members[r].child = make(world, int(r));
  }
  split.over = true;
}

int comm_split(NcclHandle handle, int color, int key, NcclHandle* child, NcclConfig*) {
  const Entered entered(handle);
  if (!entered) return kNcclInvalidArgument;
  Comm& comm = *entered.comm();
  if (const int result = pass(NcclPoint::kSplit, comm.rank); result != kNcclSuccess) return result;
  std::lock_guard lock(comm.world->mutex);
  comm.splitting = ++comm.splits;
  auto& split = comm.world->splits[comm.splitting];
  split.ones.push_back({color, key, comm.rank, child});
  if (int(split.ones.size()) == comm.world->ranks) finish_split(split);
  return kNcclInProgress;
}

int get_async_error(NcclHandle handle, int* error) {
  const Entered entered(handle);
  if (!entered) return kNcclInvalidArgument;
  Comm& comm = *entered.comm();
  *error = kNcclInProgress;
  if (!comm.initialized) {
    if (const int result = pass(NcclPoint::kInitAsync, comm.rank); result != kNcclSuccess) return *error = result, kNcclSuccess;
    std::lock_guard lock(comm.world->mutex);
    if (comm.world->joined < comm.world->ranks) return kNcclSuccess;
    comm.initialized = true;
  }
  if (comm.splitting != 0) {
    std::lock_guard lock(comm.world->mutex);
    if (!comm.world->splits[comm.splitting].over) return kNcclSuccess;
    comm.splitting = 0;
  }
  if (const int result = pass(NcclPoint::kAsyncError, comm.rank); result != kNcclSuccess) comm.error = result;
  *error = comm.error;
  return kNcclSuccess;
}

int comm_finalize(NcclHandle handle) {
  const Entered entered(handle);
  if (!entered) return kNcclInvalidArgument;
  const int result = pass(NcclPoint::kFinalize, entered.comm()->rank);
  return result == kNcclSuccess ? kNcclInProgress : result;
}
int comm_destroy(NcclHandle handle) { return forget(handle) ? kNcclSuccess : kNcclInvalidArgument; }
int comm_abort(NcclHandle handle) {
  CommPtr comm;
  {
    const Entered entered(handle);
    if (!entered) return kNcclInvalidArgument;
    comm = entered.comm();
    (void)pass(NcclPoint::kAbort, comm->rank);
  }
  (void)forget(handle);
  comm->aborted = true;
  {
    std::lock_guard lock(comm->world->mutex);
    comm->world->changed.notify_all();
  }
  std::lock_guard lock(state().mutex);
  ++state().aborts;
  return kNcclSuccess;
}

// ------------------------------------------------------------------------------------------------------------------- operations

DType type_of(int type) {
  constexpr DType kTypes[] = {DType::kI8, DType::kU8, DType::kI32, DType::kU32, DType::kI64, DType::kU64, DType::kF16, DType::kF32, DType::kF64, DType::kBF16};
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
  static constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg};
  const DType type = type_of(part.type);
  std::vector<const void*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data() + first * kernels::size_of(type));
  const ReduceOp op = part.scaled ? ReduceOp::kPreMulSum : kOps[part.op];
  kernels::reduce(kernels::Isa::kReference, part.out, pointers, part.count, type, {op, part.factor, comm.world->ranks, false});
}

/// As a kernel does: on the stream, until all are there or it is aborted.
void execute(Comm& comm, const Part& part, std::uint64_t number) {
  World& world = *comm.world;
  const std::size_t element = kernels::size_of(type_of(part.type));
  const std::size_t read = part.count * element * (part.kind == Part::Kind::kReduceScatter ? std::size_t(world.ranks) : 1);
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
      for (std::size_t r = 0; r < slot.inputs.size(); ++r) std::memcpy(static_cast<std::byte*>(part.out) + r * read, slot.inputs[r].data(), read);
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
  if (const int result = pass(NcclPoint::kLaunch, group.comm->rank); result != kNcclSuccess) return group.comm->error = result, result;
  FakeCuda::enqueue(group.stream, [comm = group.comm, messages = std::move(group.messages)] { exchange(*comm, messages); });
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

FakeNccl& FakeNccl::instance() {
  static FakeNccl& instance = *new FakeNccl;
  return instance;
}
void FakeNccl::on(std::function<NcclFault(NcclPoint, int)> faults) {
  std::lock_guard lock(state().mutex);
  state().faults = std::move(faults);
}
void FakeNccl::release() {
  std::lock_guard lock(state().mutex);
  state().released = true;
  state().changed.notify_all();
}
void FakeNccl::reset() {
  std::lock_guard lock(state().mutex);
  state().faults = nullptr;
  state().released = false;
  state().worlds.clear();
  state().violations = state().aborts = 0;
}
int FakeNccl::communicators() { std::lock_guard lock(state().mutex); return int(state().comms.size()); }
int FakeNccl::operations() { std::lock_guard lock(state().mutex); return state().made_operations; }
int FakeNccl::violations() { std::lock_guard lock(state().mutex); return state().violations; }
int FakeNccl::aborts() { std::lock_guard lock(state().mutex); return state().aborts; }

const NcclApi& FakeNccl::api() {
  using Kind = Part::Kind;
  static constexpr NcclApi kApi{
      .get_version = [](int* version) { return *version = nccl_version(2, 28, 9), kNcclSuccess; },
      .get_unique_id = get_unique_id,
      .comm_init_rank_config = comm_init,
      .comm_split = comm_split,
      .comm_finalize = comm_finalize,
      .comm_destroy = comm_destroy,
      .comm_abort = comm_abort,
      .comm_get_async_error = get_async_error,
      .get_error_string = [](int result) { return result == kNcclRemoteError ? "remote process exited or there was a network error" : result == kNcclInvalidArgument ? "invalid argument" : "unhandled error"; },
      .get_last_error = [](NcclHandle) { return "the last error of the fake"; },
      .group_start = [] { return ++t_group.depth, kNcclSuccess; },
      .group_end = group_end,
      .all_reduce = [](const void* in, void* out, std::size_t count, int type, int op, NcclHandle comm, void* stream) { return collective({Kind::kAllReduce, in, out, count, type, op, 0}, comm, stream); },
      .reduce = [](const void* in, void* out, std::size_t count, int type, int op, int root, NcclHandle comm, void* stream) { return collective({Kind::kReduce, in, out, count, type, op, root}, comm, stream); },
      .broadcast = [](const void* in, void* out, std::size_t count, int type, int root, NcclHandle comm, void* stream) { return collective({Kind::kBroadcast, in, out, count, type, 0, root}, comm, stream); },
      .all_gather = [](const void* in, void* out, std::size_t count, int type, NcclHandle comm, void* stream) { return collective({Kind::kAllGather, in, out, count, type, 0, 0}, comm, stream); },
      .reduce_scatter = [](const void* in, void* out, std::size_t count, int type, int op, NcclHandle comm, void* stream) { return collective({Kind::kReduceScatter, in, out, count, type, op, 0}, comm, stream); },
      .send = [](const void* in, std::size_t count, int type, int peer, NcclHandle comm, void* stream) { return message({true, in, nullptr, bytes_of(count, type), peer}, comm, stream); },
      .recv = [](void* out, std::size_t count, int type, int peer, NcclHandle comm, void* stream) { return message({false, nullptr, out, bytes_of(count, type), peer}, comm, stream); },
      .red_op_create_pre_mul_sum = create_pre_mul_sum,
      .red_op_destroy = destroy_op,
  };
  return kApi;
}

}  // namespace troupe::collective::testing

// The life of communicators, and the table. What is put on their streams is in fake_nccl_operations.cc.
#include "tests/collective/fake_nccl.h"

#include <pthread.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "tests/collective/fake_nccl_state.h"

namespace troupe::collective::testing {
namespace fake_nccl {

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
int pass(NcclPoint point, int rank) {
  const NcclFault fault = fault_at(point, rank);
  if (fault.hangs) {
    std::unique_lock lock(state().mutex);
    state().changed.wait(lock, [] { return state().released; });
  }
  return fault.result;
}

namespace {

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
    std::sort(members.begin(), members.end(),
              [](const auto& a, const auto& b) { return std::tie(a.key, a.rank) < std::tie(b.key, b.rank); });
    auto world = std::make_shared<World>(int(members.size()));
    world->joined = world->ranks;
    for (std::size_t r = 0; r < members.size(); ++r) *members[r].child = make(world, int(r));
  }
  split.over = true;
}

/// Is it memory of the calling thread's stack, which is gone when the caller gives up?
bool on_stack(const void* address) {
  pthread_attr_t attributes;
  void* lowest = nullptr;
  std::size_t size = 0;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return false;
  ::pthread_attr_getstack(&attributes, &lowest, &size);
  ::pthread_attr_destroy(&attributes);
  return address >= lowest && address < static_cast<const char*>(lowest) + size;
}

int comm_split(NcclHandle handle, int color, int key, NcclHandle* child, NcclConfig* config) {
  if (on_stack(child) || (config && on_stack(config))) {
    std::lock_guard lock(state().mutex);
    ++state().stack_addresses;
  }
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
    if (const int result = pass(NcclPoint::kInitAsync, comm.rank); result != kNcclSuccess)
      return *error = result, kNcclSuccess;
    std::lock_guard lock(comm.world->mutex);
    if (comm.world->joined < comm.world->ranks) return kNcclSuccess;
    comm.initialized = true;
  }
  if (comm.splitting != 0) {
    std::lock_guard lock(comm.world->mutex);
    if (!comm.world->splits[comm.splitting].over) return kNcclSuccess;
    comm.splitting = 0;
  }
  const int result = pass(NcclPoint::kAsyncError, comm.rank);
  if (result == kNcclInProgress) return kNcclSuccess;  // and is forgotten: errors stay
  if (result != kNcclSuccess) comm.error = result;
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

}  // namespace

void add_life(NcclApi& api) {
  api.get_version = [](int* version) { return *version = nccl_version(2, 28, 9), kNcclSuccess; };
  api.get_unique_id = get_unique_id;
  api.comm_init_rank_config = comm_init;
  api.comm_split = comm_split;
  api.comm_finalize = comm_finalize;
  api.comm_destroy = comm_destroy;
  api.comm_abort = comm_abort;
  api.comm_get_async_error = get_async_error;
  api.get_error_string = [](int result) {
    return result == kNcclRemoteError       ? "remote process exited or there was a network error"
           : result == kNcclInvalidArgument ? "invalid argument"
                                            : "unhandled error";
  };
  api.get_last_error = [](NcclHandle) { return "the last error of the fake"; };
}

}  // namespace fake_nccl

using fake_nccl::state;

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
  state().violations = state().aborts = state().stack_addresses = 0;
}
int FakeNccl::communicators() { std::lock_guard lock(state().mutex); return int(state().comms.size()); }
int FakeNccl::operations() { std::lock_guard lock(state().mutex); return state().made_operations; }
int FakeNccl::violations() { std::lock_guard lock(state().mutex); return state().violations; }
int FakeNccl::stack_addresses() { std::lock_guard lock(state().mutex); return state().stack_addresses; }
int FakeNccl::aborts() { std::lock_guard lock(state().mutex); return state().aborts; }

const NcclApi& FakeNccl::api() {
  static const NcclApi instance = [] {
    NcclApi api{};
    fake_nccl::add_life(api);
    fake_nccl::add_operations(api);
    return api;
  }();
  return instance;
}

}  // namespace troupe::collective::testing

// What the two halves of the fake of NCCL share: fake_nccl.cc has the life of communicators, fake_nccl_operations.cc
// what runs on them.
//
// Thread rule: any thread; the fields of State and World are guarded by their mutex, a World's is taken before State's.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/collective/fake_nccl.h"

namespace troupe::collective::testing::fake_nccl {

using Bytes = std::vector<std::byte>;

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
  int next_op = 100, made_operations = 0, violations = 0, aborts = 0, stack_addresses = 0;
};
State& state();

NcclFault fault_at(NcclPoint point, int rank);
/// The result of a call; what hangs does so here.
int pass(NcclPoint point, int rank);

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

/// The entries of the table for communicators, and those that put work on their streams.
void add_life(NcclApi& api);
void add_operations(NcclApi& api);

}  // namespace troupe::collective::testing::fake_nccl

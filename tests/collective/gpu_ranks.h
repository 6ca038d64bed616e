// Ranks on GPUs for tests: threads of this process, each with a device of FakeCuda, joined by FakeNccl over control
// links in shared memory.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collective/nccl/communicator.h"
#include "collective/nccl/library.h"
#include "tests/collective/fake_cuda.h"
#include "tests/collective/fake_nccl.h"
#include "tests/collective/ranks.h"

namespace troupe::collective::testing {

inline GpuTables fake_tables() { return {&FakeCuda::api(), &FakeNccl::api(), nccl_version(2, 28, 9)}; }
/// Small slabs; limits that only what hangs exceeds, on however busy a machine.
inline GpuLimits fake_limits() {
  return {.init = std::chrono::seconds(60),
          .abort = std::chrono::seconds(60),
          .finalize = std::chrono::seconds(60),
          .slab_bytes = 1 << 20};
}
/// The devices of a test, kept until its end: what hangs on their threads is let go of before they are destroyed.
struct Devices {
  std::mutex mutex;
  std::vector<std::shared_ptr<GpuDevice>> all;
  GpuLimits limits = fake_limits();  ///< of those that are made
  static Devices& instance() {
    static Devices& instance = *new Devices;
    return instance;
  }
  /// Until no init, finalize or abort is under way.
  bool await_idle() {
    std::lock_guard lock(mutex);
    return std::ranges::all_of(all,
                               [](const auto& device) { return device->side().await_idle(std::chrono::seconds(60)); });
  }
};
inline std::shared_ptr<GpuDevice> fake_device(int index) {
  auto device = GpuDevice::open(fake_tables(), index, Devices::instance().limits).value();
  std::lock_guard lock(Devices::instance().mutex);
  Devices::instance().all.push_back(device);
  return device;
}

/// Device memory of a test; the CPU may look at it, as it is a fake.
template <class T> class OnGpu {
 public:
  OnGpu(GpuDevice& device, std::size_t count) : count_(count) {
    device.use();
    void* memory = nullptr;
    if (FakeCuda::api().allocate(&memory, std::max<std::size_t>(count * sizeof(T), 1)) != 0)
      throw Error("no device memory");
    data_ = static_cast<T*>(memory);
  }
  OnGpu(GpuDevice& device, std::span<const T> values) : OnGpu(device, values.size()) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~OnGpu() { (void)FakeCuda::api().release(data_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  std::span<T> span() { return {data_, count_}; }
  T& operator[](std::size_t i) { return data_[i]; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

struct GpuSetting {
  int ranks = 2;
  Duration timeout = std::chrono::seconds(60), forming = std::chrono::seconds(60);
  NcclScope scope = NcclScope::kEverything;
};

/// The control links of one group, and how a rank becomes a member. Throws what over_nccl throws.
class GpuFounding {
 public:
  explicit GpuFounding(const GpuSetting& setting)
      : setting_(setting), segment_(make_segment({.ranks = setting.ranks})) {}
  Group member(int rank, const std::shared_ptr<GpuDevice>& device, const std::string& missing = {}) {
    Patience patience(setting_.forming, nullptr);
    auto control = std::make_unique<ShmCommunicator>(segment_, rank);
    return group_of(
        over_nccl(std::move(control), {.group = "test", .device = device, .missing = missing, .scope = setting_.scope},
                  patience),
        {.ranks = setting_.ranks, .timeout = setting_.timeout});
  }
  ShmSegment& segment() { return *segment_; }

 private:
  GpuSetting setting_;
  std::shared_ptr<ShmSegment> segment_;
};

/// Runs `body` as every rank, on a thread and a device each.
inline void on_ranks(int ranks, const std::function<void(int rank, const std::shared_ptr<GpuDevice>& device)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        body(r, fake_device(r));
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << r << ": " << error.what();
      }
    });
  for (auto& thread : threads) thread.join();
}
inline void on_gpus(const GpuSetting& setting, const std::function<void(Group, GpuDevice&)>& body) {
  GpuFounding founding(setting);
  on_ranks(setting.ranks,
           [&](int rank, const std::shared_ptr<GpuDevice>& device) { body(founding.member(rank, device), *device); });
}

/// Starts with fakes that do what they should, and ends with nothing left of what was made.
class OnFakes : public ::testing::Test {
 protected:
  void SetUp() override {
    FakeCuda::instance().reset();
    FakeNccl::instance().reset();
    Devices::instance().limits = fake_limits();
    before_ = FakeCuda::instance().counts();
  }
  void TearDown() override {
    FakeNccl::instance().release();
    EXPECT_TRUE(Devices::instance().await_idle());
    Devices::instance().all.clear();
    EXPECT_EQ(FakeNccl::instance().violations(), 0) << "NM-1: two threads inside, or a communicator that was gone";
    EXPECT_EQ(FakeNccl::instance().communicators(), 0);
    EXPECT_EQ(FakeNccl::instance().stack_addresses(), 0) << "NM-4";
    if (gives_up_memory_) return;
    EXPECT_EQ(FakeNccl::instance().operations(), 0);
    const CudaCounts left = FakeCuda::instance().counts();
    EXPECT_EQ(left, before_) << left.allocations << " allocations, " << left.pinned << " pinned, " << left.streams
                             << " streams, " << left.events << " events, " << left.imports << " imports";
  }
  /// LD-3, after a hang; a test can wait for the limit of an abort then.
  void give_up_memory() {
    gives_up_memory_ = true;
    Devices::instance().limits.abort = std::chrono::seconds(3);
  }

 private:
  bool gives_up_memory_ = false;
  CudaCounts before_;
};

}  // namespace troupe::collective::testing

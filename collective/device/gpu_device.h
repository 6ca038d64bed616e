// GpuDevice: what this process has of one GPU for collectives: the tables, the stream on which all groups' collectives
// run, the launcher, memory, the threads for calls that may hang, and the watchdog.
//
// Invariants
//   GD-1  All collectives of a device run on one stream, launched by one thread (launcher.h).
//   GD-2  The watchdog looks at everything it was given every kLookEvery, and at nothing after the destructor.
//   GD-3  What runs on its threads refers to it and does not own it. When a thread hangs in NCCL, the device is never
//         destroyed.
//   GD-4  Kernels run on CUDA's default stream. The copy stream is ordered against it, and an operation comes after
//         what is on the stream that it names, else after the copy stream: so no kernel before it is overtaken.
// Thread rule: any thread.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/device/cuda_api.h"
#include "collective/device/device_memory.h"
#include "collective/device/launcher.h"
#include "collective/device/nccl_api.h"
#include "collective/device/side_threads.h"
#include <troupe/result.h>

namespace troupe::collective {

struct GpuTables {
  const CudaApi* cuda = nullptr;
  const NcclApi* nccl = nullptr;  ///< null: device memory only
  int nccl_version = 0;
};

struct GpuLimits {
  Duration init = std::chrono::seconds(60);      ///< of a communicator
  Duration abort = std::chrono::seconds(10);     ///< then it counts as stuck and is reported
  Duration finalize = std::chrono::seconds(10);  ///< then it is aborted
  std::size_t slab_bytes = DeviceMemory::kSlabBytes;
};

/// Something that the watchdog looks at.
class Watched {
 public:
  virtual ~Watched() = default;
  virtual void look(Clock::time_point now) = 0;
};

class Watchdog {
 public:
  static constexpr auto kLookEvery = std::chrono::milliseconds(100);
  Watchdog() = default;
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Until it is gone.
  void watch(std::weak_ptr<Watched> what);

 private:
  void loop();
  std::mutex mutex_;
  std::condition_variable stopped_;
  std::vector<std::weak_ptr<Watched>> watched_;
  bool stopping_ = false;
  std::thread thread_;
};

class GpuDevice {
 public:
  /// An Error that says which call failed.
  /// The last one to let go of it waits for the threads that it runs, up to the limits.
  static Result<std::shared_ptr<GpuDevice>> open(const GpuTables& tables, int index, const GpuLimits& limits = {});
  GpuDevice(const GpuDevice&) = delete;
  GpuDevice& operator=(const GpuDevice&) = delete;

  const CudaApi& cuda() const { return *tables_.cuda; }
  const NcclApi& nccl() const { return *tables_.nccl; }
  const GpuTables& tables() const { return tables_; }
  const GpuLimits& limits() const { return limits_; }
  const GpuFacts& facts() const { return facts_; }
  int index() const { return index_; }
  /// Makes it the device of the calling thread.
  void use() const { (void)cuda().set_device(index_); }

  void* stream() const { return stream_; }            ///< of collectives
  void* copy_stream() const { return copy_stream_; }  ///< of copies from and to the host, and of device arrays (GD-4)
  DeviceMemory& memory() { return memory_; }
  Launcher& launcher() { return launcher_; }
  SideThreads& side() { return side_; }
  Watchdog& watchdog() { return watchdog_; }

  /// Throws an Error that says which call failed and what CUDA says.
  void check(int status, const char* what) const;
  void* take_event();
  void give_event(void* event);
  /// Pinned memory of kPinnedBytes, kept when it comes back: to make some may wait for all that the device has to do,
  /// and for a kernel of NCCL that waits for another rank.
  static constexpr std::size_t kPinnedBytes = std::size_t(1) << 20;
  std::byte* take_pinned();
  void give_pinned(std::byte* memory);
  enum class Side { kHost, kHere, kElsewhere };
  /// Where a pointer of the user's points to; managed and pinned memory count as the host's.
  Side side_of(const void* pointer) const;

 private:
  GpuDevice(const GpuTables& tables, int index, const GpuLimits& limits)
      : tables_(tables), limits_(limits), index_(index), memory_(*tables.cuda, index, limits.slab_bytes) {}

  ~GpuDevice();
  static void retire(GpuDevice* device);

  const GpuTables tables_;
  const GpuLimits limits_;
  const int index_;
  GpuFacts facts_{};
  void *stream_ = nullptr, *copy_stream_ = nullptr;
  DeviceMemory memory_;
  std::mutex mutex_;
  std::vector<void*> events_;
  std::vector<std::byte*> pinned_;
  SideThreads side_;
  Launcher launcher_;
  Watchdog watchdog_;
};

}  // namespace troupe::collective

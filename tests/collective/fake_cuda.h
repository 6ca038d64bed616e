// FakeCuda: CudaApi for tests without a GPU. Device memory is memory of the CPU that is remembered as such; a stream is
// a thread that carries out what was put on it in order; an event is a count that a stream reaches. So whatever forgets
// to wait really is too early.
//
// There are kDevices devices. Everything that is made is counted, and faults are set by the test.
// Thread rule: any thread; reset() when nothing else runs.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>

#include "collective/device/cuda_api.h"

namespace troupe::collective::testing {

/// What was made and not destroyed.
struct CudaCounts {
  int allocations = 0, pinned = 0, streams = 0, events = 0, imports = 0;
  bool operator==(const CudaCounts&) const = default;
};

class FakeCuda {
 public:
  static constexpr int kDevices = 8;
  static FakeCuda& instance();
  static const CudaApi& api();

  /// What goes wrong; 0 and -1: nothing.
  struct Faults {
    std::atomic<int> allocations_left{-1};  ///< then there is no memory
    std::atomic<int> copy{0}, record{0}, query{0}, ipc{0};
    std::atomic<int> ipc_left{0};           ///< opens that are well before `ipc` counts
  };
  Faults faults;
  CudaCounts counts();
  void reset();

  /// Puts work on a stream; on the null stream it is done at once.
  static void enqueue(void* stream, std::function<void()> work);
  /// A kernel on the default stream of the calling thread's device: after what is on the device's ordered streams, and
  /// before whatever is put on them from now on; streams of the other kind know nothing of it.
  static void launch_on_default(std::function<void()> kernel);
  std::atomic<int> made_pinned{0};  ///< pinned memory ever
  int opened = 0;  ///< imports ever, to see that they are cached
};

}  // namespace troupe::collective::testing

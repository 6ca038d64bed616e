// FakeNccl: NcclApi for tests without a GPU. The ranks of a communicator are threads of this process; they meet on the
// streams of FakeCuda, as kernels of NCCL meet on devices, and what they make of the data is the kernels' reference in
// rank order.
//
// It is non-blocking as NCCL is: calls answer "in progress" and are through when comm_get_async_error says so.
// Faults: a function is asked at every point what shall happen there. Whatever hangs goes on at release().
// It also watches its caller: violations() counts calls on a communicator that is gone or that another thread is inside
// of. Thread rule: any thread; on() and reset() when nothing else runs.
#pragma once
#include <functional>
#include <string>

#include "collective/device/nccl_api.h"

namespace troupe::collective::testing {

enum class NcclPoint { kUniqueId, kInit, kInitAsync, kSplit, kLaunch, kExecute, kAsyncError, kFinalize, kAbort };

struct NcclFault {
  int result = kNcclSuccess;
  bool hangs = false;
};

class FakeNccl {
 public:
  static FakeNccl& instance();
  static const NcclApi& api();

  /// The rank is -1 where there is none yet.
  void on(std::function<NcclFault(NcclPoint point, int rank)> faults);
  /// Lets go of everything that hangs, now and until reset().
  void release();
  void reset();

  int communicators();  ///< made and neither destroyed nor aborted
  int operations();     ///< reduction operations likewise
  int violations();
  int aborts();
  int stack_addresses();  ///< addresses of a caller's stack that a call was to keep
};

}  // namespace troupe::collective::testing

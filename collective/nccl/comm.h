// NcclComm: one communicator of NCCL through its life (nccl/life.h). It is non-blocking for NCCL, and whatever may hang
// all the same - init, finalize, abort - runs on threads of its own.
//
// Who notices that something is wrong (an operation, the watchdog, the group's control links) calls fail(); the first
// one counts. From then on no call enters NCCL on this communicator, and abort is begun when the last one has left it.
//
// Invariants
//   NM-1  One thread at a time is inside NCCL with this communicator (calls_).
//   NM-2  kNcclInvalidArgument leaves it usable; every other error ends it.
//   NM-3  An error of NCCL is told to the group's control links: so all ranks hear of it.
//   NM-4  NCCL is given no address of a stack: what a split that is given up in the middle still writes to stays for
//         good.
// Thread rule: any thread.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collective/device/gpu_device.h"
#include "collective/nccl/life.h"

namespace troupe::collective {

/// How a call ended: 0, NCCL's result, or kRefused because the communicator is not (or no longer) ready.
struct NcclOutcome {
  static constexpr int kRefused = -1, kLate = -2;
  int result = kNcclSuccess;
  std::string text = {};
  bool ok() const { return result == kNcclSuccess; }
  Reason reason() const {
    return result == kLate ? Reason::kTimeout : result == kNcclRemoteError ? Reason::kDied : Reason::kBackend;
  }
};

struct NcclBirth {
  std::string name = {};  ///< for NCCL's own logs
  int ranks = 1, rank = 0;
  NcclUniqueId id{};                        ///< without a parent
  std::shared_ptr<class NcclComm> parent = {};   ///< split from it
  int color = 0, key = 0;
};

class NcclComm final : public Watched, public std::enable_shared_from_this<NcclComm> {
 public:
  /// Begins its init. `control`: whom to tell of errors, and whose failures end it.
  static std::shared_ptr<NcclComm> begin(GpuDevice& device, NcclBirth birth, std::weak_ptr<Communicator> control);
  /// Takes part in a split of `parent` without becoming a member of the new one.
  static void stand_aside(const std::shared_ptr<NcclComm>& parent);

  /// False: it failed, or the deadline passed (then it has failed by that). `control` knows why.
  bool await_ready(Patience& patience);
  /// One or several calls of NCCL on this communicator; comes back when they are through, at the deadline at the
  /// latest. What the function returns beyond success and "in progress" is an error. Waits for the device never.
  NcclOutcome call(const char* what, Clock::time_point deadline, const std::function<int(NcclHandle)>& function);
  /// The group has failed: abort. Idempotent.
  void fail();
  /// Finalize and destroy, without a wait.
  void close();
  Life life() const;
  /// Is there nothing left that could touch memory? Looks at the limits itself.
  bool over();
  void look(Clock::time_point now) override;
  GpuDevice& device() { return *device_; }

 private:
  NcclComm(GpuDevice& device, NcclBirth birth, std::weak_ptr<Communicator> control)
      : device_(&device), birth_(std::move(birth)), control_(std::move(control)) {}
  struct Making;
  /// `only_in`: the event was seen in this state, and means nothing in another.
  void apply(LifeEvent event, std::optional<Life> only_in = {});
  void init();
  void abort();
  void finalize();
  bool pause(Life while_in, std::chrono::microseconds time);
  int settle(NcclHandle handle, int result, Life while_in, Clock::time_point deadline,
             std::unique_lock<std::mutex>& calls);
  void report(const NcclOutcome& outcome);
  std::string text_of(const char* what, int result, NcclHandle handle) const;

  GpuDevice* const device_;  // outlives it: see GD-3
  NcclBirth birth_;
  const std::weak_ptr<Communicator> control_;
  std::mutex calls_;  // held inside NCCL (NM-1); before mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Life life_ = Life::kInit;
  Clock::time_point limit_{};  // of init, closing and abort
  NcclHandle handle_ = nullptr;
  bool remote_seen_ = false;   // of the watchdog
};

}  // namespace troupe::collective

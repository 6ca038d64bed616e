// NcclCommunicator: a group whose data is moved by NCCL, between GPUs. It stands on the *control* links of the group, a
// communicator in shared memory or over sockets: by them the ranks agree on every operation before NCCL is asked for
// it, hear of deaths and failures, and exchange what NCCL needs to begin.
//
// NcclScope says what is for NCCL: kEverything where the backend was asked for, memory of the host being staged;
// kDeviceMemory where all members hold GPUs and nothing was asked for: memory of the host goes by the control links as
// in any group, and NCCL's communicator is made by the first operation on device memory, so that groups without one
// never pay for it.
//
//   role's thread                          launcher (one a device)               device
//     agree: signatures of all ranks
//     host memory: copy to the device
//     submit, in order  ------------------->   wait for the user's stream
//                                            NCCL's call  --------------------->   on the stream of collectives
//     await: the event  <------------------- record the event  <---------------
//     host memory: copy back
//
// Messages (send, recv) go by the control links, from and to device memory by copies: NCCL knows no tags, and sends and
// receives that ranks issue in different orders would wait for each other on the stream.
//
// Invariants
//   NC-1  No data moves before all ranks have shown the same signature: a mismatch fails the group with both
//         signatures, and a rank that does not come is named by the control links at the deadline.
//   NC-2  A failure of one rank, whoever notices it, becomes a failure of the control links, and so of all ranks; every
//         rank then aborts NCCL's communicator.
//   NC-3  Device memory of an operation is the user's again when its event is through; after a failure, when the abort
//         has made it so or was given up (kStuck, which is reported).
//   NC-4  NCCL is not entered before every rank has shown that it has what NCCL needs.
//   NC-5  With kDeviceMemory the side is part of the signature: ranks that mix memory of the host and of devices in one
//         operation hear of a mismatch, whether it is the control links' operation or the agreement before NCCL's that
//         finds it.
// Thread rule: see communicator.h.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collective/base/communicator.h"
#include "collective/nccl/agreement.h"
#include "collective/nccl/comm.h"
#include "collective/nccl/launched.h"
#include "collective/device/staging.h"

namespace troupe::collective {

enum class NcclScope { kEverything, kDeviceMemory };

struct NcclPlan {
  std::string group = {};
  std::shared_ptr<GpuDevice> device = {};        ///< null: this rank has none
  std::string missing = {};                  ///< what it lacks then
  NcclScope scope = NcclScope::kEverything;
  /// Puts a variable into the environment unless it is there: called before NCCL is. Empty: not done.
  std::function<void(const std::string& name, const std::string& value)> set_variable = {};
};

/// All ranks of `control` call it. kEverything: throws CollectiveError on all ranks: kBackend says what is missing
/// where, kMismatch which versions differ, kTimeout who did not come or that NCCL was not ready in time. kDeviceMemory:
/// where NCCL is not to be had rank 0 logs why, and the group makes do (without_nccl.h); one whose ranks did not all
/// come has failed. Besides, what Patience throws.
std::unique_ptr<Communicator> over_nccl(std::unique_ptr<Communicator> control, const NcclPlan& plan,
                                        Patience& patience);

/// NCCL's communicator of the ranks of `control`; all of them call it, having agreed to. Null: `control` has failed.
/// May throw what Patience throws; `control` has failed then, too.
std::shared_ptr<NcclComm> connect_nccl(const std::shared_ptr<Communicator>& control, GpuDevice& device,
                                       const std::string& group, Patience& patience);

class NcclCommunicator final : public Communicator {
 public:
  /// `comm` null: with kDeviceMemory, to be made when it is needed.
  NcclCommunicator(std::shared_ptr<Communicator> control, std::shared_ptr<NcclComm> comm,
                   std::shared_ptr<GpuDevice> device, std::string group, NcclScope scope);
  ~NcclCommunicator() override;

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }
  Backend backend() const override { return Backend::kNccl; }
  std::uint64_t epoch() const override { return control_->epoch(); }
  bool run(const detail::Operation& operation, Patience& patience) override;
  bool agree_on(const Signature& what, Patience& patience) override { return control_->agree_on(what, patience); }
  bool hands_over(const detail::Operation& operation) const override;
  bool takes_device_memory() const override { return true; }
  std::unique_ptr<LaunchNumber> take_number() override { return device_->launcher().take_number(); }
  std::shared_ptr<Handed> hand_over(const detail::Operation& operation, std::unique_ptr<LaunchNumber> number,
                                    Patience& patience) override;
  void await(Handed& handed, Patience& patience) override;
  void check_memory(const detail::Operation& operation) const override;

  void post(Transfer& transfer) override;
  bool pump() override;
  bool wait_messages(Clock::time_point deadline, Environment* environment) override {
    return control_->wait_messages(deadline, environment);
  }
  void nudge() override;
  bool stale() override { return control_->stale(); }
  void fail(const Failure& failure) override;
  std::optional<Failure> failure() override;
  std::unique_ptr<Communicator> split(int color, int key, Patience& patience) override;

 private:
  struct Staged;
  bool agree(const detail::Operation& operation, Patience& patience);
  bool ready(Patience& patience);
  bool await_launch(Launched& launched, Patience& patience);
  void await_abort(NcclComm& comm);
  void give_up(const Failure& failure);
  std::shared_ptr<NcclComm> comm() const;
  void abort_comm() { if (const auto here = comm()) here->fail(); }

  std::shared_ptr<Communicator> control_;
  std::shared_ptr<NcclComm> comm_;  // under the lock: the first operation on device memory makes it
  std::shared_ptr<GpuDevice> device_;
  std::string group_;
  const NcclScope scope_;
  Staging staging_;
  std::vector<std::unique_ptr<Staged>> messages_;  // from and to device memory
  mutable std::mutex mutex_;
  std::condition_variable nudged_;
  bool nudge_ = false;
};

}  // namespace troupe::collective

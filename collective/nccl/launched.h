// Launched: one operation of NcclCommunicator from its submission to its end.
//
//   kWaiting --begin()--> kLaunching --finish()--> kLaunched | kRefused
//      |
//      +---cancel()-----> kRefused          the launch has not begun, and will not
//
// Invariants
//   LD-1  The user's memory is given to the device only between begin() and finish(), and only when begin() was true.
//   LD-2  It is well only when its event was through while the communicator was ready: what an abort leaves behind is
//         not a result.
//   LD-3  Staging memory and event go back when the device is through; after a stuck abort they are given up.
// Thread rule: begin and finish on the launcher; settle by the role; the rest any thread.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "collective/base/communicator.h"
#include "collective/nccl/comm.h"

namespace troupe::collective {

class Staging;

class Launched final : public Handed {
 public:
  enum class State : std::uint8_t { kWaiting, kLaunching, kLaunched, kRefused };

  Launched(std::shared_ptr<NcclComm> comm, std::shared_ptr<Communicator> control, Staging& staging);
  ~Launched() override;

  /// Host memory becomes device memory; orders it behind the user's stream. Throws what CUDA says. By the role.
  void prepare(const detail::Operation& operation, int rank);
  /// What the device is asked for, with device memory only.
  const detail::Operation& operation() const { return operation_; }

  bool begin();
  void finish(NcclOutcome outcome);
  bool cancel();
  State await_launch(Clock::time_point deadline);
  const NcclOutcome& outcome() const { return outcome_; }
  /// On the launcher, between begin() and finish().
  int order_behind_user();
  int record();

  bool over() override;
  bool settle() override;
  bool wait_on(Stream stream) override;
  /// Nothing is to be done by the device.
  void skip();
  bool spun = false;  ///< of NcclCommunicator::await

 private:
  GpuDevice& device() { return comm_->device(); }
  void* stage(const void* host, std::size_t bytes, bool copy, DeviceMemory::Block& block);

  const std::shared_ptr<NcclComm> comm_;
  const std::shared_ptr<Communicator> control_;
  Staging& staging_;
  detail::Operation operation_;
  void *event_ = nullptr, *user_event_ = nullptr;
  DeviceMemory::Block in_block_, out_block_;
  void* host_out_ = nullptr;
  std::size_t host_out_bytes_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<State> state_{State::kWaiting};  // written under the mutex
  NcclOutcome outcome_;
  std::atomic<bool> through_{false}, well_{false};
  std::atomic<Clock::time_point::rep> abandoned_at_{0};
};

}  // namespace troupe::collective

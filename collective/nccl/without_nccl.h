// WithoutNccl: a group whose members all hold GPUs, where NCCL is not to be had: its CPU links, for memory of the host.
// An operation on device memory ends the group on all ranks, with what is missing where.
//
// Invariants
//   WN-1  No pointer to device memory that this process can recognize reaches the CPU links.
// Thread rule: see communicator.h.
#pragma once
#include <memory>

#include "collective/base/communicator.h"
#include "collective/device/gpu_device.h"

namespace troupe::collective {

class WithoutNccl final : public Communicator {
 public:
  /// `device`: this rank's GPU, null where it has none.
  WithoutNccl(std::unique_ptr<Communicator> links, std::shared_ptr<GpuDevice> device, Failure lacks)
      : links_(std::move(links)), device_(std::move(device)), lacks_(std::move(lacks)) {}

  int rank() const override { return links_->rank(); }
  int size() const override { return links_->size(); }
  Backend backend() const override { return links_->backend(); }
  std::uint64_t epoch() const override { return links_->epoch(); }
  bool run(const detail::Operation& operation, Patience& patience) override;
  bool agree_on(const Signature& what, Patience& patience) override { return links_->agree_on(what, patience); }
  bool takes_device_memory() const override { return true; }
  void post(Transfer& transfer) override;
  bool pump() override { return links_->pump(); }
  bool wait_messages(Clock::time_point deadline, Environment* environment) override {
    return links_->wait_messages(deadline, environment);
  }
  void nudge() override { links_->nudge(); }
  bool stale() override { return links_->stale(); }
  void fail(const Failure& failure) override { links_->fail(failure); }
  std::optional<Failure> failure() override { return links_->failure(); }
  std::unique_ptr<Communicator> split(int color, int key, Patience& patience) override;

 private:
  void refuse(const std::string& what);

  std::unique_ptr<Communicator> links_;
  std::shared_ptr<GpuDevice> device_;
  const Failure lacks_;
};

}  // namespace troupe::collective

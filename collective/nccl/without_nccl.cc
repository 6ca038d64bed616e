#include "collective/nccl/without_nccl.h"

#include <fmt/format.h>

#include "collective/device/operation_memory.h"

namespace troupe::collective {

/// A failure that is there already is the one that counts.
void WithoutNccl::refuse(const std::string& what) {
  if (!links_->failure())
    links_->fail({lacks_.reason, fmt::format("rank {} called {} in device memory: {}", rank(), what, lacks_.text),
                  lacks_.missing_ranks});
}

bool WithoutNccl::run(const detail::Operation& operation, Patience& patience) {
  if (!operation.on_device && side_of(operation, rank(), device_.get()) == Side::kHost)
    return links_->run(operation, patience);
  refuse(describe(signature_of(operation)));
  return false;
}

void WithoutNccl::post(Transfer& transfer) {
  const void* const pointer = transfer.sends ? transfer.from : transfer.to;
  if (transfer.bytes == 0 || !device_ || device_->side_of(pointer) == GpuDevice::Side::kHost)
    return links_->post(transfer);
  refuse(fmt::format("{} of {} bytes", detail::kind_name(transfer.sends ? detail::Kind::kSend : detail::Kind::kRecv),
                     transfer.bytes));
}

std::unique_ptr<Communicator> WithoutNccl::split(int color, int key, Patience& patience) {
  auto child = links_->split(color, key, patience);
  return child ? std::make_unique<WithoutNccl>(std::move(child), device_, lacks_) : nullptr;
}

}  // namespace troupe::collective

#include "collective/device/device_memory.h"

#include <algorithm>

#include <fmt/format.h>

namespace troupe::collective {
namespace {
std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
}  // namespace

std::size_t SlabPlan::add_slab(std::size_t bytes) {
  slabs_.emplace_back().free.emplace(0, bytes);
  return slabs_.size() - 1;
}

std::optional<SlabPlan::Address> SlabPlan::take(std::size_t bytes) {
  bytes = rounded(std::max<std::size_t>(bytes, 1), kAlignment);
  std::optional<Address> best;
  std::size_t best_bytes = 0;
  for (std::size_t s = 0; s < slabs_.size(); ++s)
    for (const auto& [offset, size] : slabs_[s].free)
      if (size >= bytes && (!best || size < best_bytes)) best = Address{s, offset}, best_bytes = size;
  if (!best) return std::nullopt;
  Slab& slab = slabs_[best->slab];
  slab.free.erase(best->offset);
  if (best_bytes > bytes) slab.free.emplace(best->offset + bytes, best_bytes - bytes);
  slab.taken.emplace(best->offset, bytes);
  return best;
}

void SlabPlan::give_back(Address address) {
  Slab& slab = slabs_[address.slab];
  const auto taken = slab.taken.find(address.offset);
  if (taken == slab.taken.end()) return;
  auto [at, added] = slab.free.emplace(taken->first, taken->second);
  slab.taken.erase(taken);
  if (const auto after = std::next(at); after != slab.free.end() && at->first + at->second == after->first) {  // DM-2
    at->second += after->second;
    slab.free.erase(after);
  }
  if (at == slab.free.begin()) return;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    slab.free.erase(at);
  }
}

DeviceMemory::~DeviceMemory() {
  if (!slabs_.empty()) (void)cuda_.set_device(device_);
  for (void* slab : slabs_) (void)cuda_.release(slab);
}

Result<DeviceMemory::Block> DeviceMemory::allocate(std::size_t bytes) {
  if (bytes == 0) return Block{};
  std::lock_guard lock(mutex_);
  auto address = plan_.take(bytes);
  if (!address) {
    const std::size_t size = std::max(slab_bytes_, rounded(bytes, SlabPlan::kAlignment));
    void* memory = nullptr;
    int status = cuda_.set_device(device_);
    if (status == 0) status = cuda_.allocate(&memory, size);
    if (status == kCudaOutOfMemory)
      return OutOfMemoryError(fmt::format("GPU {} has no {} bytes more (for a block of {})", device_, size, bytes));
    if (status != 0)
      return Error(
          fmt::format("GPU {}: allocation of {} bytes: {} ({})", device_, size, cuda_.error_text(status), status));
    plan_.add_slab(size);
    slabs_.push_back(memory);
    address = plan_.take(bytes);
  }
  return Block{static_cast<std::byte*>(slabs_[address->slab]) + address->offset, bytes, *address};
}

void DeviceMemory::release(const Block& block) {
  if (!block.pointer) return;
  std::lock_guard lock(mutex_);
  plan_.give_back(block.address);
}

void* DeviceMemory::slab(std::size_t index) const {
  std::lock_guard lock(mutex_);
  return slabs_[index];
}

}  // namespace troupe::collective

#include "collective/device/device_storage.h"

#include <cstring>

#include <fmt/format.h>

namespace troupe::collective {

ImportedSlab::~ImportedSlab() {
  device_->use();
  (void)device_->cuda().ipc_close_memory(base_);
}

Result<std::shared_ptr<ImportedSlab>> SlabImports::open(const std::shared_ptr<GpuDevice>& device,
                                                        const DeviceTicket& ticket) {
  std::lock_guard lock(mutex_);
  std::erase_if(slabs_, [](const auto& entry) { return entry.second.expired(); });
  auto& place = slabs_[{ticket.process, ticket.slab}];
  if (auto known = place.lock()) return known;
  device->use();
  void* base = nullptr;
  if (const int status = device->cuda().ipc_open_memory(&base, &ticket.memory); status != 0)
    return Error(
        fmt::format("CUDA refuses memory of another process: {} ({}); with TROUPE_DEVICE_IPC=0 at the owner arrays "
                    "travel by the host's memory",
                    device->cuda().error_text(status), status));
  auto opened = std::make_shared<ImportedSlab>(device, base);
  place = opened;
  return opened;
}

Result<std::shared_ptr<DeviceStorage>> DeviceStorage::make(std::shared_ptr<GpuDevice> device, std::size_t bytes) {
  std::shared_ptr<DeviceStorage> storage(new DeviceStorage(std::move(device)));
  auto block = storage->device_->memory().allocate(bytes);
  if (!block.ok()) return block.error_ptr();
  storage->block_ = *block;
  storage->data_ = static_cast<std::byte*>(block->pointer);
  storage->bytes_ = bytes;
  return storage;
}

Result<std::shared_ptr<DeviceStorage>> DeviceStorage::import(std::shared_ptr<GpuDevice> device,
                                                             const DeviceTicket& ticket, SlabImports& imports,
                                                             std::shared_ptr<void> keep) {
  std::shared_ptr<DeviceStorage> storage(new DeviceStorage(std::move(device)));
  GpuDevice& gpu = *storage->device_;
  storage->frozen_ = true;
  storage->keep_ = std::move(keep);
  storage->bytes_ = ticket.bytes;
  if (ticket.bytes == 0) return storage;
  if (std::memcmp(gpu.facts().uuid, ticket.gpu, sizeof ticket.gpu) != 0)
    return Error("the array is on a GPU that this process does not see");
  auto slab = imports.open(storage->device_, ticket);
  if (!slab.ok()) return slab.error_ptr();
  storage->imported_ = *slab;
  storage->data_ = storage->imported_->base() + ticket.offset;
  int status = gpu.cuda().ipc_open_event(&storage->event_, &ticket.event);
  if (status == 0) status = gpu.cuda().stream_wait_event(gpu.copy_stream(), storage->event_);
  if (status != 0)
    return Error(
        fmt::format("CUDA refuses an event of another process: {} ({})", gpu.cuda().error_text(status), status));
  return storage;
}

DeviceStorage::~DeviceStorage() {
  device_->use();
  if (event_) (void)device_->cuda().event_destroy(event_);
  device_->memory().release(block_);
}

void DeviceStorage::copy_from(const void* host) { Staging(*device_).to_device(data_, host, bytes_); }
void DeviceStorage::copy_to(void* host) const { Staging(*device_).to_host(host, data_, bytes_); }

void DeviceStorage::freeze() {
  if (frozen_) return;  // the first time it has one owner; later arrays of several threads share it, and only read
  frozen_ = true;
  if (bytes_ == 0) return;
  device_->use();
  device_->check(device_->cuda().event_create(&event_, 1), "cudaEventCreate");
  device_->check(device_->cuda().event_record(event_, device_->copy_stream()), "cudaEventRecord");
}

DeviceTicket DeviceStorage::ticket(std::uint64_t process, std::uint64_t number, std::string& why) const {
  DeviceTicket ticket{.process = process,
                      .number = number,
                      .slab = block_.address.slab,
                      .offset = block_.address.offset,
                      .bytes = bytes_,
                      .device = device_->index()};
  std::memcpy(ticket.gpu, device_->facts().uuid, sizeof ticket.gpu);
  if (bytes_ == 0 || imported_) return ticket;
  device_->use();
  int status = device_->cuda().ipc_memory_handle(&ticket.memory, device_->memory().slab(block_.address.slab));
  if (status == 0) status = device_->cuda().ipc_event_handle(&ticket.event, event_);
  if (status != 0) why = fmt::format("{} ({})", device_->cuda().error_text(status), status);
  ticket.by_ipc = status == 0 ? 1 : 0;
  return ticket;
}

}  // namespace troupe::collective

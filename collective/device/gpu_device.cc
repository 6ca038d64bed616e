#include "collective/device/gpu_device.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/thread.h"

namespace troupe::collective {

// ------------------------------------------------------------------------------------------------------------ Watchdog

Watchdog::~Watchdog() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::watch(std::weak_ptr<Watched> what) {
  std::lock_guard lock(mutex_);
  watched_.push_back(std::move(what));
  if (thread_.joinable() || stopping_) return;
  thread_ = start_thread([this] { loop(); });
}

void Watchdog::loop() {
  std::vector<std::shared_ptr<Watched>> now;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kLookEvery, [&] { return stopping_; })) {
    std::erase_if(watched_, [](const std::weak_ptr<Watched>& one) { return one.expired(); });
    for (const auto& one : watched_)
      if (auto here = one.lock()) now.push_back(std::move(here));
    lock.unlock();
    for (const auto& one : now) one->look(Clock::now());
    now.clear();
    lock.lock();
  }
}

// ----------------------------------------------------------------------------------------------------------- GpuDevice

Result<std::shared_ptr<GpuDevice>> GpuDevice::open(const GpuTables& tables, int index, const GpuLimits& limits) {
  std::shared_ptr<GpuDevice> device(new GpuDevice(tables, index, limits), &GpuDevice::retire);
  try {
    device->check(tables.cuda->set_device(index), "cudaSetDevice");
    device->check(tables.cuda->device_facts(index, &device->facts_), "cudaGetDeviceProperties");
    device->check(tables.cuda->stream_create(&device->stream_), "cudaStreamCreate");
    device->check(tables.cuda->ordered_stream_create(&device->copy_stream_), "cudaStreamCreate");
  } catch (const Error& error) {
    return error;
  }
  return device;
}

/// GD-3
void GpuDevice::retire(GpuDevice* device) {
  static auto& given_up = *new std::vector<GpuDevice*>;
  static std::mutex mutex;
  if (device->side_.await_idle(device->limits_.finalize + device->limits_.abort)) {
    delete device;
    return;
  }
  std::lock_guard lock(mutex);
  given_up.push_back(device);
}

GpuDevice::~GpuDevice() {
  use();
  // The launcher may be the last to let go of an operation, whose events come back by that (LD-3).
  launcher_.stop();
  for (void* event : events_) (void)cuda().event_destroy(event);
  for (std::byte* memory : pinned_) (void)cuda().host_release(memory);
  if (stream_) (void)cuda().stream_destroy(stream_);
  if (copy_stream_) (void)cuda().stream_destroy(copy_stream_);
}

void GpuDevice::check(int status, const char* what) const {
  if (status == kCudaOutOfMemory)
    throw OutOfMemoryError(fmt::format("GPU {}: {}: {}", index_, what, cuda().error_text(status)));
  if (status != 0) throw Error(fmt::format("GPU {}: {}: {} ({})", index_, what, cuda().error_text(status), status));
}

void* GpuDevice::take_event() {
  {
    std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      void* const event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  void* event = nullptr;
  use();
  check(cuda().event_create(&event, 0), "cudaEventCreate");
  return event;
}

void GpuDevice::give_event(void* event) {
  std::lock_guard lock(mutex_);
  events_.push_back(event);
}

std::byte* GpuDevice::take_pinned() {
  {
    std::lock_guard lock(mutex_);
    if (!pinned_.empty()) {
      std::byte* const memory = pinned_.back();
      pinned_.pop_back();
      return memory;
    }
  }
  void* memory = nullptr;
  use();
  check(cuda().host_allocate(&memory, kPinnedBytes), "cudaMallocHost");
  return static_cast<std::byte*>(memory);
}

void GpuDevice::give_pinned(std::byte* memory) {
  std::lock_guard lock(mutex_);
  pinned_.push_back(memory);
}

GpuDevice::Side GpuDevice::side_of(const void* pointer) const {
  int kind = 0, device = 0;
  if (!pointer || cuda().memory_kind(pointer, &kind, &device) != 0 || kind != int(CudaMemory::kDevice))
    return Side::kHost;
  return device == index_ ? Side::kHere : Side::kElsewhere;
}

}  // namespace troupe::collective

// DeviceStorage: the memory behind a DeviceArray, and how another process of the node reads it without a copy.
//
//   owner     block of a slab --freeze()--> event recorded on the array's stream, nobody writes any more
//             --ticket()--> { slab's IPC handle, offset, event's IPC handle }           travels in the object
//   importer  slab opened once an (owner, slab) --> slab + offset; its stream waits for the event
//
// Invariants
//   DS-1  Frozen memory is not written to again through this interface.
//   DS-2  A slab is imported once, however many arrays of it are read, and closed with the last of them.
//   DS-3  An importer holds what keeps the owner's block (`keep`): the block is given back after the last importer is
//         gone.
// Thread rule: copies and freeze one thread at a time; the rest any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "collective/device/gpu_device.h"
#include "collective/device/staging.h"
#include <troupe/result.h>

namespace troupe::collective {

/// Names memory of another process. Plain bytes on the wire, between processes of one build.
struct DeviceTicket {
  std::uint64_t process = 0;  ///< of the owner: boot, pid and start time, hashed
  std::uint64_t number = 0;   ///< of the array, in the owner
  std::uint64_t slab = 0, offset = 0, bytes = 0;
  std::int32_t device = 0;    ///< as the owner counts
  std::uint32_t by_ipc = 0;   ///< 0: IPC is refused there; the bytes travel beside it
  unsigned char gpu[16] = {};
  IpcHandle memory{}, event{};
};

/// An imported slab.
class ImportedSlab {
 public:
  ImportedSlab(std::shared_ptr<GpuDevice> device, void* base) : device_(std::move(device)), base_(base) {}
  ~ImportedSlab();
  ImportedSlab(const ImportedSlab&) = delete;
  ImportedSlab& operator=(const ImportedSlab&) = delete;
  std::byte* base() const { return static_cast<std::byte*>(base_); }

 private:
  std::shared_ptr<GpuDevice> device_;
  void* base_;
};

/// DS-2
class SlabImports {
 public:
  Result<std::shared_ptr<ImportedSlab>> open(const std::shared_ptr<GpuDevice>& device, const DeviceTicket& ticket);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<ImportedSlab>> slabs_;
};

class DeviceStorage {
 public:
  /// New memory, not initialized. OutOfMemoryError.
  static Result<std::shared_ptr<DeviceStorage>> make(std::shared_ptr<GpuDevice> device, std::size_t bytes);
  /// Another process's memory, as its ticket says. `keep` lives as long as it. An Error says that IPC is refused.
  static Result<std::shared_ptr<DeviceStorage>> import(std::shared_ptr<GpuDevice> device, const DeviceTicket& ticket,
                                                       SlabImports& imports, std::shared_ptr<void> keep);
  ~DeviceStorage();
  DeviceStorage(const DeviceStorage&) = delete;
  DeviceStorage& operator=(const DeviceStorage&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  GpuDevice& device() const { return *device_; }
  bool frozen() const { return frozen_; }

  /// Both wait; in order with what is on the stream of the device's arrays (copy_stream). Throw what CUDA says.
  void copy_from(const void* host);
  void copy_to(void* host) const;
  /// No more writes; what is on the stream of arrays comes before whatever an importer does.
  void freeze();
  /// Frozen memory only. by_ipc is 0 where CUDA refuses; `why` says how.
  DeviceTicket ticket(std::uint64_t process, std::uint64_t number, std::string& why) const;

 private:
  explicit DeviceStorage(std::shared_ptr<GpuDevice> device) : device_(std::move(device)) {}

  std::shared_ptr<GpuDevice> device_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool frozen_ = false;
  void* event_ = nullptr;
  DeviceMemory::Block block_;                // of an owner
  std::shared_ptr<ImportedSlab> imported_;   // of an importer
  std::shared_ptr<void> keep_;
};

}  // namespace troupe::collective

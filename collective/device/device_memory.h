// DeviceMemory: memory of one GPU in slabs that are allocated from CUDA once and cut up here, because CUDA's own
// allocation waits for the whole device, and so for ever when a collective is waiting there.
//
// SlabPlan decides where a block lies; DeviceMemory holds the slabs.
//
// Invariants
//   DM-1  Blocks that are out at the same time do not overlap; each begins at a multiple of kAlignment.
//   DM-2  Released neighbours become one: when all blocks are back, a slab is one free piece again.
//   DM-3  A slab goes back to CUDA only with DeviceMemory itself: whoever has imported it may still read it.
// Thread rule: SlabPlan one thread; DeviceMemory any thread.
#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "collective/device/cuda_api.h"
#include <troupe/result.h>

namespace troupe::collective {

class SlabPlan {
 public:
  static constexpr std::size_t kAlignment = 512;
  struct Address {
    std::size_t slab = 0, offset = 0;
  };

  std::size_t add_slab(std::size_t bytes);
  /// The smallest free piece that is large enough; nothing: a slab must be added.
  std::optional<Address> take(std::size_t bytes);
  void give_back(Address address);
  std::size_t free_pieces(std::size_t slab) const { return slabs_[slab].free.size(); }

 private:
  struct Slab {
    std::map<std::size_t, std::size_t> free, taken;  // offset -> bytes
  };
  std::vector<Slab> slabs_;
};

class DeviceMemory {
 public:
  struct Block {
    void* pointer = nullptr;
    std::size_t bytes = 0;
    SlabPlan::Address address = {};
  };
  static constexpr std::size_t kSlabBytes = std::size_t(64) << 20;

  DeviceMemory(const CudaApi& cuda, int device, std::size_t slab_bytes = kSlabBytes)
      : cuda_(cuda), device_(device), slab_bytes_(slab_bytes) {}
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// OutOfMemoryError when the GPU has no more. Of no bytes: no memory.
  Result<Block> allocate(std::size_t bytes);
  void release(const Block& block);
  /// The slab's first byte: what CUDA exports to other processes.
  void* slab(std::size_t index) const;

 private:
  const CudaApi& cuda_;
  const int device_;
  const std::size_t slab_bytes_;
  mutable std::mutex mutex_;
  SlabPlan plan_;
  std::vector<void*> slabs_;
};

}  // namespace troupe::collective

// Staging: two pieces of pinned memory through which memory of the host goes to a GPU and back, one being filled while
// the other is under way. Nothing that waits for another rank is on the stream that it uses, so its waits are short;
// they have a limit all the same.
//
// Thread rule: one thread at a time.
#pragma once
#include <cstddef>

#include "collective/device/gpu_device.h"

namespace troupe::collective {

class Staging {
 public:
  explicit Staging(GpuDevice& device) : device_(device) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  /// Both return when the copy is done. Throw what CUDA says. One thread.
  void to_device(void* to, const void* from, std::size_t bytes);
  void to_host(void* to, const void* from, std::size_t bytes);

 private:
  static constexpr std::size_t kPieceBytes = GpuDevice::kPinnedBytes;
  struct Piece {
    std::byte* memory = nullptr;
    void* event = nullptr;
  };
  void open();
  void await(void* event);
  GpuDevice& device_;
  Piece pieces_[2];
};

}  // namespace troupe::collective

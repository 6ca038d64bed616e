// Device memory and the plug-in's table for tests: plain C++, no toolkit. One thread.
//
// GDV-1  Every call's status is looked at; a failure throws Failure with the call's name and CUDA's text.
// GDV-2  A fresh buffer holds NaNs: a kernel that leaves an element out is seen.
// GDV-3  Buffers may start at an odd element (`shift`), so that unaligned paths run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/plugin.h"

namespace gpu_test {

using troupe::kernels::cuda::Call;
using troupe::kernels::cuda::Table;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Gpu {
 public:
  explicit Gpu(const Table& table) : table_(table) {}
  const Table* operator->() const { return &table_; }
  const Table& table() const { return table_; }

  void check(int status, const char* what) const {
    if (status != 0)
      throw Failure(std::string(what) + ": " + table_.error_text(status) + " (" + std::to_string(status) + ")");
  }
  void wait() const { check(table_.synchronize({}), "synchronize"); }

 private:
  const Table& table_;
};

template <class T>
class Buffer {
 public:
  Buffer(const Gpu& gpu, std::size_t count, std::size_t shift = 0) : gpu_(gpu), count_(count), shift_(shift) {
    gpu_.check(gpu_->allocate(&memory_, (count + shift + 1) * sizeof(T)), "allocate");
    gpu_.check(gpu_->fill({}, memory_, 0xff, (count + shift + 1) * sizeof(T)), "fill");
  }
  Buffer(const Gpu& gpu, const std::vector<T>& values, std::size_t shift = 0) : Buffer(gpu, values.size(), shift) {
    if (count_ != 0) gpu_.check(gpu_->copy({}, data(), values.data(), count_ * sizeof(T)), "copy to the device");
  }
  ~Buffer() {
    if (memory_ != nullptr) (void)gpu_->release(memory_);
  }
  Buffer(Buffer&& other) noexcept
      : gpu_(other.gpu_), memory_(other.memory_), count_(other.count_), shift_(other.shift_) {
    other.memory_ = nullptr;
  }
  Buffer& operator=(Buffer&&) = delete;

  [[nodiscard]] T* data() const { return static_cast<T*>(memory_) + shift_; }
  operator T*() const { return data(); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> out(count_);
    if (count_ != 0) gpu_.check(gpu_->copy({}, out.data(), data(), count_ * sizeof(T)), "copy from the device");
    gpu_.wait();
    return out;
  }
  void zero() const { gpu_.check(gpu_->fill({}, data(), 0, count_ * sizeof(T)), "fill"); }

 private:
  const Gpu& gpu_;
  void* memory_ = nullptr;
  std::size_t count_, shift_;
};

}  // namespace gpu_test

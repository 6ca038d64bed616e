// Cuda: the kernels' plug-in as programs use it: found by name, every status looked at, device memory that is given
// back. Plain C++ without CUDA's headers.
//
// Invariants
//   CU-1  A status other than 0 becomes an exception that names the call and says CUDA's text: OutOfMemoryError where
//         memory is short, Error otherwise.
//   CU-2  The plug-in is the one of kernels/cuda/plugin_file.h (PF-1). It is opened once, when first asked for, and
//         kept.
// Thread rule: as plugin.h. The GPU is a property of the thread: use() before a thread's first call.
#pragma once
#include <cstddef>
#include <string>
#include <utility>

#include <troupe/result.h>

#include "kernels/cuda/plugin.h"

namespace troupe::kernels::cuda {

/// NotFoundError: where the plug-in was looked for (CU-2), or that there is no GPU. InvalidArgumentError: not of this
/// version.
Result<const Table*> cuda_table();
/// The plug-in in this file; a GPU is not asked for.
Result<const Table*> cuda_table_of(const char* file);

/// Which of the GPUs that this process sees is its own. `assigned`, from 0: what the runtime has given to an actor,
/// whose process sees that one only, as number 0, or all of them (local mode). -1: what a launcher's local rank says
/// (own_device). Throws as CU-1.
int own_cuda_device(const Table& table, int assigned = -1);

class Cuda {
 public:
  explicit Cuda(const Table& table, int device = 0) : table_(&table), device_(device) {}

  const Table* operator->() const { return table_; }
  int device() const { return device_; }
  /// Makes the GPU that of the calling thread.
  void use() const { check(table_->set_device(device_), "set_device"); }
  /// CU-1
  void check(int status, const char* what) const;

  /// One entry of the table, on the default stream: run("gelu_forward", &Table::gelu_forward, count, x, y).
  template <class... P, class... A>
  void run(const char* what, int (*Table::*entry)(Call, P...), A... arguments) const {
    run_version(0, what, entry, arguments...);
  }
  /// A version of it (CK-2).
  template <class... P, class... A>
  void run_version(int version, const char* what, int (*Table::*entry)(Call, P...),
                   A... arguments) const {
    check((table_->*entry)({.stream = nullptr, .version = version}, arguments...), what);
  }

  /// Host or device memory, either way.
  void copy(void* to, const void* from, std::size_t bytes) const {
    run("copy", &Table::copy, to, from, bytes);
  }
  void zero(void* to, std::size_t bytes) const { run("fill", &Table::fill, to, 0, bytes); }
  void wait() const { run("synchronize", &Table::synchronize); }

 private:
  const Table* table_;
  int device_;
};

/// The GPU's name and what multiplies matrices there: cuBLASLt, which is opened now (TROUPE_CUBLASLT_LIB names it), or
/// the plug-in's own kernels, much slower, and why.
std::string describe_and_open_products(const Cuda& cuda);

/// Elements in device memory; what they are is undefined until written.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(const Cuda& cuda, std::size_t count) : cuda_(&cuda), size_(count) {
    cuda.check(cuda->allocate(&memory_, count * sizeof(T)), "allocate");
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(cuda_, other.cuda_);
    std::swap(memory_, other.memory_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() {
    if (memory_ != nullptr) (void)(*cuda_)->release(memory_);
  }

  T* data() const { return static_cast<T*>(memory_); }
  std::size_t size() const { return size_; }

 private:
  const Cuda* cuda_ = nullptr;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

/// Hands out aligned ranges of one allocation; with no memory yet it only counts.
class DeviceCarver {
 public:
  explicit DeviceCarver(std::byte* memory) : memory_(memory) {}
  template <class T>
  void take(T*& range, std::size_t count) {
    range = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    used_ += (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
  }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::size_t kAlign = 256;
  std::byte* memory_;
  std::size_t used_ = 0;
};

}  // namespace troupe::kernels::cuda

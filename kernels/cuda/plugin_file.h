// What a process finds of CUDA: the plug-in's file, the GPU that is its own, cuBLASLt. Looked for, by names of the
// environment, here for everybody who uses one of the plug-in's tables (plugin.h, collective/device/cuda_api.h).
//
// Invariants
//   PF-1  The plug-in is TROUPE_CUDA_LIB where that is set; else libtroupe_cuda.so where the loader finds it, else
//         beside the program. The first file that can be opened is taken; one of another version is an error, never
//         passed over.
//   PF-2  What was opened stays open until the process ends: its tables are used by threads that may outlive main.
//   PF-3  A table is handed out only when it has the abi and the size that the caller was compiled with.
// Thread rule: any thread, as long as nobody changes the environment meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <troupe/result.h>

#include "kernels/cuda/plugin.h"

namespace troupe::kernels::cuda {

class PluginFile {
 public:
  /// PF-1. NotFoundError: where it was looked for, and what the loader said of each place.
  static Result<PluginFile> find();
  /// This file and no other. NotFoundError: what the loader says.
  static Result<PluginFile> open(const std::string& file);

  /// What the plug-in's function of this name, `const T* (std::uint32_t abi)`, gives. InvalidArgumentError: PF-3.
  template <class T>
  Result<const T*> table(const char* function, std::uint32_t abi) const {
    const auto get = reinterpret_cast<const T* (*)(std::uint32_t)>(symbol(function));
    const T* const found = get != nullptr ? get(abi) : nullptr;
    if (found == nullptr || found->bytes != sizeof(T)) return of_another_version();
    return found;
  }

 private:
  PluginFile(std::string name, void* library) : name_(std::move(name)), library_(library) {}
  void* symbol(const char* name) const;
  ErrorPtr of_another_version() const;

  std::string name_;
  void* library_;
};

/// Which of the `count` GPUs that this process sees is its own: what a launcher says with LOCAL_RANK (torchrun) or
/// OMPI_COMM_WORLD_LOCAL_RANK (mpirun), modulo `count`; else 0.
int own_device(int count);

/// Opens cuBLASLt for the plug-in's products, TROUPE_CUBLASLT_LIB or what the loader finds, and tells its version.
/// NotFoundError: what failed; the products are the plug-in's own kernels then, much slower.
Result<std::string> find_cublaslt(const Table& table);

}  // namespace troupe::kernels::cuda

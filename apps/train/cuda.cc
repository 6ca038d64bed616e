#include "apps/train/cuda.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace troupe::train {
namespace {

using kernels::cuda::Table;

constexpr const char* kPlugin = "libtroupe_cuda.so";
constexpr int kCudaOutOfMemory = 2;  // cudaErrorMemoryAllocation

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<const Table*> found_table() {
  std::vector<std::string> candidates;
  if (const std::string named = variable("TROUPE_CUDA_LIB"); !named.empty()) {
    candidates = {named};
  } else {
    std::error_code ignored;
    candidates = {kPlugin, (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / kPlugin).string()};
  }
  std::string why;
  for (const std::string& candidate : candidates) {
    auto table = cuda_table_of(candidate.c_str());
    if (table.ok() || table.error().code() != ErrorCode::kNotFound) return table;
    why += (why.empty() ? "" : "; ") + std::string(table.error().message());
  }
  return NotFoundError("the CUDA plug-in is not there (TROUPE_CUDA_LIB names it): " + why);
}

}  // namespace

Result<const Table*> cuda_table_of(const char* file) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = ::dlerror();
    return NotFoundError(text != nullptr ? text : file);
  }
  const auto get = reinterpret_cast<kernels::cuda::TableFunction>(::dlsym(library, kernels::cuda::kTableSymbol));
  const Table* const table = get != nullptr ? get(kernels::cuda::kPluginAbi) : nullptr;
  if (table == nullptr || table->bytes != sizeof(Table))
    return InvalidArgumentError("the CUDA plug-in " + std::string(file) + " is of another version of Troupe");
  return table;
}

Result<const Table*> cuda_table() {
  static const Result<const Table*> table = found_table();
  if (!table.ok()) return table;
  int count = 0;
  if (const int status = (*table)->device_count(&count); status != 0)
    return NotFoundError("there is no GPU here: " + std::string((*table)->error_text(status)));
  if (count == 0) return NotFoundError("there is no GPU here, or no driver");
  return table;
}

int own_cuda_device(const Table& table, int assigned) {
  int count = 0;
  Cuda(table).check(table.device_count(&count), "device_count");
  if (assigned >= 0) return assigned < count ? assigned : 0;
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    const std::string text = variable(name);
    int rank = 0;
    const bool number = !text.empty() && std::from_chars(text.data(), text.data() + text.size(), rank).ec == std::errc();
    if (number && rank >= 0 && count > 0) return rank % count;
  }
  return 0;
}

std::string describe_and_open_products(const Cuda& cuda) {
  cuda.use();
  kernels::cuda::DeviceFacts facts{};
  cuda.check(cuda->device_facts(cuda.device(), &facts), "device_facts");
  const std::string named = variable("TROUPE_CUBLASLT_LIB");
  char message[512] = "";
  const int status = cuda->open_cublaslt(named.empty() ? nullptr : named.c_str(), message, sizeof(message));
  return std::string(facts.name) + ", products by " + (status == 0 ? message : "the plug-in's own kernels: " + std::string(message));
}

void Cuda::check(int status, const char* what) const {
  if (status == 0) return;
  const std::string text = "GPU " + std::to_string(device_) + ": " + what + ": " + table_->error_text(status) + " (" +
                           std::to_string(status) + ")";
  if (status == kCudaOutOfMemory) throw OutOfMemoryError(text);
  throw Error(text);
}

}  // namespace troupe::train

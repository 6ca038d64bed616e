#include "kernels/cuda/cuda.h"

#include <string>

#include "kernels/cuda/plugin_file.h"

namespace troupe::kernels::cuda {
namespace {

constexpr int kCudaOutOfMemory = 2;  // cudaErrorMemoryAllocation

Result<const Table*> table_of(const Result<PluginFile>& plugin) {
  if (!plugin.ok()) return plugin.error_ptr();
  return plugin->table<Table>(kTableSymbol, kPluginAbi);
}

}  // namespace

Result<const Table*> cuda_table_of(const char* file) { return table_of(PluginFile::open(file)); }

Result<const Table*> cuda_table() {
  static const Result<const Table*> table = table_of(PluginFile::find());
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
  return own_device(count);
}

std::string describe_and_open_products(const Cuda& cuda) {
  cuda.use();
  DeviceFacts facts{};
  cuda.check(cuda->device_facts(cuda.device(), &facts), "device_facts");
  const auto products = find_cublaslt(*cuda.operator->());
  return std::string(facts.name) + ", products by " +
         (products.ok() ? *products : "the plug-in's own kernels: " + std::string(products.error().message()));
}

void Cuda::check(int status, const char* what) const {
  if (status == 0) return;
  const std::string text = "GPU " + std::to_string(device_) + ": " + what + ": " + table_->error_text(status) + " (" +
                           std::to_string(status) + ")";
  if (status == kCudaOutOfMemory) throw OutOfMemoryError(text);
  throw Error(text);
}

}  // namespace troupe::kernels::cuda

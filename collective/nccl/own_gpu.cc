#include "collective/nccl/own_gpu.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "collective/nccl/library.h"
#include "core/base/environment.h"
#include "kernels/cuda/plugin_file.h"

namespace troupe::collective {
namespace {

Result<const CudaApi*> load_plugin() {
  const auto plugin = kernels::cuda::PluginFile::find();
  if (!plugin.ok()) return plugin.error_ptr();
  return plugin->table<CudaApi>(kCudaApiSymbol, kCudaApiAbi);
}

struct Own {
  std::mutex mutex;
  std::optional<Result<const CudaApi*>> cuda;
  std::optional<Result<NcclLibrary>> nccl;
  std::map<int, std::shared_ptr<GpuDevice>> devices;
};
Own& own() {
  static Own& instance = *new Own;  // threads of NCCL may outlive main
  return instance;
}

}  // namespace

Result<const CudaApi*> open_cuda_plugin() {
  std::lock_guard lock(own().mutex);
  if (!own().cuda) own().cuda = load_plugin();
  return *own().cuda;
}

Result<std::shared_ptr<GpuDevice>> own_gpu(int index) {
  const auto cuda = open_cuda_plugin();
  if (!cuda.ok()) return cuda.error_ptr();
  int count = 0;
  if (const int status = (*cuda)->device_count(&count); status != 0)
    return Error(fmt::format("no GPU: {} ({})", (*cuda)->error_text(status), status));
  if (count == 0) return Error("no GPU");
  if (index >= count)
    return InvalidArgumentError(fmt::format("there is no GPU {}: this process sees {}", index, count));
  if (index < 0) index = kernels::cuda::own_device(count);
  std::lock_guard lock(own().mutex);
  auto& device = own().devices[index];
  if (device) return device;
  if (!own().nccl)
    own().nccl = open_nccl(environment("TROUPE_NCCL_LIB"),
                           {environment("VIRTUAL_ENV"), environment("CONDA_PREFIX"), environment("HOME")});
  GpuTables tables{.cuda = *cuda};
  if (own().nccl->ok()) {
    tables.nccl = &(*own().nccl)->api;
    tables.nccl_version = (*own().nccl)->version;
  }
  auto opened = GpuDevice::open(tables, index);
  if (opened.ok()) device = *opened;
  return opened;
}

std::unique_ptr<Communicator> over_own_gpu(std::unique_ptr<Communicator> control, const std::string& group,
                                           NcclScope scope, Patience& patience) {
  NcclPlan plan{.group = group, .scope = scope};
  plan.set_variable = [](const std::string& name, const std::string& value) {
    (void)::setenv(name.c_str(), value.c_str(), 0);
  };
  const auto device = own_gpu();
  if (device.ok()) {
    plan.device = *device;
    std::lock_guard lock(own().mutex);
    if (!own().nccl->ok()) plan.missing = own().nccl->error().what();
  } else {
    plan.missing = device.error().what();
  }
  return over_nccl(std::move(control), plan, patience);
}

}  // namespace troupe::collective

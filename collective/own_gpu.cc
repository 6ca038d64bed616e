#include "collective/own_gpu.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "collective/nccl_library.h"
#include "core/base/environment.h"
#include "core/base/log.h"

namespace troupe::collective {
namespace {

constexpr const char* kPlugin = "libtroupe_cuda.so";

Result<const CudaApi*> load_plugin() {
  std::vector<std::string> candidates, why;
  if (const std::string named = environment("TROUPE_CUDA_LIB"); !named.empty()) {
    candidates = {named};
  } else {
    std::error_code ignored;
    candidates = {kPlugin, (std::filesystem::canonical("/proc/self/exe", ignored).parent_path() / kPlugin).string()};
  }
  for (const std::string& candidate : candidates) {
    void* const library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* const text = ::dlerror();
      why.push_back(text ? text : candidate);
      continue;
    }
    const auto get = reinterpret_cast<CudaApiFunction>(::dlsym(library, kCudaApiSymbol));
    const CudaApi* const api = get ? get(kCudaApiAbi) : nullptr;
    if (!api || api->bytes != sizeof(CudaApi)) return Error(fmt::format("the CUDA plug-in {} is of another version of Troupe", candidate));
    return api;
  }
  return Error(fmt::format("the CUDA plug-in is not there (TROUPE_CUDA_LIB names it): {}", fmt::join(why, "; ")));
}

int local_rank() {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    const std::string text = environment(name);
    int value = 0;
    if (!text.empty() && std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc() && value >= 0) return value;
  }
  return 0;
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
  if (const int status = (*cuda)->device_count(&count); status != 0) return Error(fmt::format("no GPU: {} ({})", (*cuda)->error_text(status), status));
  if (count == 0) return Error("no GPU");
  if (index >= count) return InvalidArgumentError(fmt::format("there is no GPU {}: this process sees {}", index, count));
  if (index < 0) index = local_rank() % count;
  std::lock_guard lock(own().mutex);
  auto& device = own().devices[index];
  if (device) return device;
  if (!own().nccl) own().nccl = open_nccl(environment("TROUPE_NCCL_LIB"), {environment("VIRTUAL_ENV"), environment("CONDA_PREFIX"), environment("HOME")});
  GpuTables tables{.cuda = *cuda};
  if (own().nccl->ok()) {
    tables.nccl = &(*own().nccl)->api;
    tables.nccl_version = (*own().nccl)->version;
  }
  auto opened = GpuDevice::open(tables, index);
  if (opened.ok()) device = *opened;
  return opened;
}

std::unique_ptr<Communicator> over_own_gpu(std::unique_ptr<Communicator> control, const std::string& group, NcclScope scope, Patience& patience) {
  NcclPlan plan{.group = group, .scope = scope};
  plan.set_variable = [](const std::string& name, const std::string& value) { (void)::setenv(name.c_str(), value.c_str(), 0); };
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

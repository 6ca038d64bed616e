#include "kernels/cuda/plugin_file.h"

#include <dlfcn.h>

#include <charconv>
#include <filesystem>
#include <vector>

#include "core/base/environment.h"

namespace troupe::kernels::cuda {
namespace {

constexpr const char* kPlugin = "libtroupe_cuda.so";

std::vector<std::string> candidates() {
  if (const std::string named = environment("TROUPE_CUDA_LIB"); !named.empty()) return {named};
  std::error_code ignored;
  // The link itself, not what it resolves to: it tells the folder of a program whose file was replaced, too.
  return {kPlugin, (std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / kPlugin).string()};
}

}  // namespace

Result<PluginFile> PluginFile::find() {
  std::string why;
  for (const std::string& candidate : candidates()) {
    auto opened = open(candidate);
    if (opened.ok()) return opened;
    why += (why.empty() ? "" : "; ") + std::string(opened.error().message());
  }
  return NotFoundError("the CUDA plug-in is not there (TROUPE_CUDA_LIB names it): " + why);
}

Result<PluginFile> PluginFile::open(const std::string& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return PluginFile(file, library);
  const char* const text = ::dlerror();
  return NotFoundError(text != nullptr ? text : file);
}

void* PluginFile::symbol(const char* name) const { return ::dlsym(library_, name); }

ErrorPtr PluginFile::of_another_version() const {
  return make_error<InvalidArgumentError>("the CUDA plug-in " + name_ + " is of another version of Troupe");
}

int own_device(int count) {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
    const std::string text = environment(name);
    int rank = 0;
    const bool number = std::from_chars(text.data(), text.data() + text.size(), rank).ec == std::errc();
    if (number && rank >= 0 && count > 0) return rank % count;
  }
  return 0;
}

Result<std::string> find_cublaslt(const Table& table) {
  const std::string named = environment("TROUPE_CUBLASLT_LIB");
  char message[512] = "";
  const int status = table.open_cublaslt(named.empty() ? nullptr : named.c_str(), message, sizeof(message));
  if (status != 0) return NotFoundError(message);
  return std::string(message);
}

}  // namespace troupe::kernels::cuda

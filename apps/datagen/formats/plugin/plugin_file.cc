#include "apps/datagen/formats/plugin/plugin_file.h"

#include <dlfcn.h>

#include <filesystem>

#include <fmt/format.h>

namespace datagen {

troupe::Result<void*> open_plugin(const PluginName& name) {
  std::error_code ignored;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::string tried;
  for (const std::string& candidate : {name.file, (folder / name.file).string(),
                                       (folder / "../lib" / name.file).lexically_normal().string()}) {
    ::dlerror();
    void* const library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    void* const function = library != nullptr ? ::dlsym(library, name.function.c_str()) : nullptr;
    if (function == nullptr) {
      const char* const why = ::dlerror();
      tried += fmt::format("\n  {}: {}", candidate, why != nullptr ? why : "no reason given");
      continue;
    }
    void* const opened = reinterpret_cast<void* (*)(int)>(function)(name.version);
    if (opened != nullptr) return opened;
    return troupe::RuntimeEnvError(
        fmt::format("{} is of another version than this program; take both from one build", candidate));
  }
  return troupe::RuntimeEnvError(fmt::format("{}, which is not in this build: run 'cmake/install-deps data' and build "
                                             "again. Tried:{}",
                                             name.needs, tried));
}

}  // namespace datagen

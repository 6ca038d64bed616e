#include "collective/nccl/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/log.h"

namespace troupe::collective {
namespace {

constexpr const char* kInPackages = "nvidia/nccl/lib/libnccl.so.2";

std::vector<std::string> files_of(const std::string& pattern) {
  if (pattern.find('*') == std::string::npos) return {pattern};
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) files.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  return files;
}

std::string path_of(void* library, const std::string& name) {
  link_map* map = nullptr;
  return ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name[0] != 0 ? map->l_name : name;
}

/// The first function that the library does not have; empty: it has them all.
std::string fill(void* library, NcclApi& api) {
  std::string missing;
  const auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (!function && missing.empty()) missing = name;
  };
  get(api.get_version, "ncclGetVersion");
  get(api.get_unique_id, "ncclGetUniqueId");
  get(api.comm_init_rank_config, "ncclCommInitRankConfig");
  get(api.comm_split, "ncclCommSplit");
  get(api.comm_finalize, "ncclCommFinalize");
  get(api.comm_destroy, "ncclCommDestroy");
  get(api.comm_abort, "ncclCommAbort");
  get(api.comm_get_async_error, "ncclCommGetAsyncError");
  get(api.get_error_string, "ncclGetErrorString");
  get(api.get_last_error, "ncclGetLastError");
  get(api.group_start, "ncclGroupStart");
  get(api.group_end, "ncclGroupEnd");
  get(api.all_reduce, "ncclAllReduce");
  get(api.reduce, "ncclReduce");
  get(api.broadcast, "ncclBroadcast");
  get(api.all_gather, "ncclAllGather");
  get(api.reduce_scatter, "ncclReduceScatter");
  get(api.send, "ncclSend");
  get(api.recv, "ncclRecv");
  get(api.red_op_create_pre_mul_sum, "ncclRedOpCreatePreMulSum");
  get(api.red_op_destroy, "ncclRedOpDestroy");
  return missing;
}

}  // namespace

std::vector<std::string> nccl_candidates(const std::string& named, const PythonPlaces& python) {
  if (!named.empty()) return {named};
  std::vector<std::string> all{"libnccl.so.2"};
  for (const std::string& root : {python.virtual_environment, python.conda_prefix})
    if (!root.empty()) all.push_back(fmt::format("{}/lib/python3*/site-packages/{}", root, kInPackages));
  if (!python.home.empty())
    all.push_back(fmt::format("{}/.local/lib/python3*/site-packages/{}", python.home, kInPackages));
  for (const char* root : {"/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages",
                           "/usr/lib/python3/dist-packages", "/opt/conda/lib/python3*/site-packages"})
    all.push_back(fmt::format("{}/{}", root, kInPackages));
  return all;
}

std::string version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string version_objection(int version) {
  if (version >= kNcclOldest) return {};
  return fmt::format("NCCL is too old: {} was found, and {} is the oldest that will do", version_text(version),
                     version_text(kNcclOldest));
}

Result<NcclLibrary> open_nccl(const std::string& named, const PythonPlaces& python) {
  std::vector<std::string> why;
  for (const std::string& candidate : nccl_candidates(named, python))
    for (const std::string& file : files_of(candidate)) {
      void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) {
        const char* text = ::dlerror();
        why.push_back(text ? text : file);
        continue;
      }
      NcclLibrary found{.api = {}, .path = path_of(library, file)};
      if (const std::string missing = fill(library, found.api); !missing.empty())
        return Error(fmt::format("{} has no {}", found.path, missing));
      if (const int result = found.api.get_version(&found.version); result != kNcclSuccess)
        return Error(fmt::format("{}: {}", found.path, found.api.get_error_string(result)));
      if (const std::string old = version_objection(found.version); !old.empty())
        return Error(fmt::format("{} ({})", old, found.path));
      write_log(LogLevel::kInfo, "NCCL {} from {}", version_text(found.version), found.path);
      return found;
    }
  return Error(fmt::format("NCCL was not found (TROUPE_NCCL_LIB names it): {}", fmt::join(why, "; ")));
}

}  // namespace troupe::collective

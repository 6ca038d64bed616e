#include "core/net/link/library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/base/environment.h"

namespace troupe::net {
namespace {

std::string folder_holding(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::string executable_folder() {
  std::array<char, 4096> path;
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  return size > 0 ? folder_holding(std::string(path.data(), std::size_t(size))) : std::string();
}

std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&library_candidates), &info) == 0 || !info.dli_fname) return {};
  return folder_holding(info.dli_fname);
}

}  // namespace

LibraryPlaces library_places(const std::string& named) {
  return {named.empty() ? environment("TROUPE_RPC_LIB") : named, executable_folder(), own_folder()};
}

std::vector<std::string> library_candidates(const LibraryPlaces& places) {
  if (!places.named.empty()) return {places.named};
  std::vector<std::string> list = {
      kRpcLibrary};  // the loader's way: RUNPATH of the executable, then the system's folders
  for (const std::string& folder : {places.executable_folder, places.own_folder})
    for (const char* below : {"/", "/../lib/", "/../../"}) {
      const std::string path = folder + below + kRpcLibrary;
      if (folder.starts_with('/') && std::find(list.begin(), list.end(), path) == list.end()) list.push_back(path);
    }
  return list;
}

}  // namespace troupe::net

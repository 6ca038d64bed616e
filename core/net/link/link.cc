// open_links: finds libtroupe_rpc and makes a LinkHub around it.
#include "core/net/link/link.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "core/net/link/hub.h"

namespace troupe::net {
namespace {

constexpr const char* kLibrary = "libtroupe_rpc.so";

std::string executable_folder() {
  std::array<char, 4096> path;
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size());
  if (size <= 0) return {};
  const std::string text(path.data(), std::size_t(size));
  return text.substr(0, text.rfind('/'));
}

std::vector<std::string> candidates(const std::string& given) {
  if (!given.empty()) return {given};
  std::vector<std::string> list = {kLibrary};  // the loader's way: RUNPATH of the executable, then the system's folders
  if (const auto folder = executable_folder(); !folder.empty()) {
    list.push_back(folder + "/" + kLibrary);
    list.push_back(folder + "/../lib/" + kLibrary);
  }
  return list;
}

/// The library stays open for good: gRPC's threads run in it.
Result<abi::Factory> load_factory(const std::string& given) {
  std::string tried;
  for (const auto& name : candidates(given)) {
    ::dlerror();
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) {
      if (void* symbol = ::dlsym(library, abi::kFactoryName)) return reinterpret_cast<abi::Factory>(symbol);
    }
    const char* error = ::dlerror();
    tried += "\n  " + name + ": " + (error ? error : "no reason given");
  }
  return RuntimeEnvError(
      std::string("cannot open ") + kLibrary +
      ", which connects nodes. Install it beside libtroupe, or name it with TROUPE_RPC_LIB. Tried:" + tried);
}

}  // namespace

Result<std::unique_ptr<Links>> open_links(LinkEvents& events, const LinksOptions& options) {
  auto factory = load_factory(options.library);
  if (!factory.ok()) return factory.error_ptr();
  auto loop = SocketLoop::start("troupe-links");
  if (!loop.ok()) return loop.error_ptr();
  LinksOptions own = options;
  if (own.identity.incarnation == 0) {
    auto drawn = draw_incarnation();
    if (!drawn.ok()) return drawn.error_ptr();
    own.identity.incarnation = *drawn;
  }
  auto hub = std::make_unique<LinkHub>(events, own, std::move(*loop));
  if (!hub->start(*factory)) {
    return RuntimeEnvError(std::string(kLibrary) +
                           " is of another version than this program; install both from one build");
  }
  return std::unique_ptr<Links>(std::move(hub));
}

}  // namespace troupe::net

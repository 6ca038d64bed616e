// open_links: finds libtroupe_rpc and makes a LinkHub around it.
#include "core/net/link/link.h"

#include <dlfcn.h>

#include <string>

#include "core/net/link/hub.h"
#include "core/net/link/library.h"

namespace troupe::net {
namespace {

/// The library stays open for good: gRPC's threads run in it.
Result<abi::Factory> load_factory(const std::string& given) {
  std::string tried;
  for (const auto& name : library_candidates(library_places(given))) {
    ::dlerror();
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) {
      if (void* symbol = ::dlsym(library, abi::kFactoryName)) return reinterpret_cast<abi::Factory>(symbol);
    }
    const char* error = ::dlerror();
    tried += "\n  " + name + ": " + (error ? error : "no reason given");
  }
  return RuntimeEnvError(std::string("cannot open ") + kRpcLibrary +
                         ", which connects nodes. Link with -Wl,-rpath,FOLDER of where it is installed, or set "
                         "TROUPE_RPC_LIB to its path. Tried:" +
                         tried);
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
    return RuntimeEnvError(std::string(kRpcLibrary) +
                           " is of another version than this program; install both from one build");
  }
  return std::unique_ptr<Links>(std::move(hub));
}

}  // namespace troupe::net

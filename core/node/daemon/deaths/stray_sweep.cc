#include "core/node/daemon/deaths/stray_sweep.h"

#include <cstdlib>

#include "core/node/launcher/strays.h"

namespace troupe::node {
namespace {
constexpr Duration kStrayDelay = std::chrono::milliseconds(10);
}

void StraySweep::add(std::uint32_t serial) {
  serials_.insert(serial);
  plan();
}

void StraySweep::plan() {
  if (std::exchange(planned_, true)) return;
  loop_.after(kStrayDelay, [this] {
    planned_ = false;
    sweep();
  });
}

void StraySweep::sweep() {
  const int hit = kill_where(prefix_, [this](const Marked& marked) {
    const std::size_t slash = marked.mark.rfind('/');
    return serials_.contains(static_cast<std::uint32_t>(std::strtoul(marked.mark.c_str() + slash + 1, nullptr, 16)));
  });
  if (hit > 0) return plan();
  serials_.clear();
}

}  // namespace troupe::node

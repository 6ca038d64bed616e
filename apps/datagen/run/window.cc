#include "apps/datagen/run/window.h"

#include <algorithm>
#include <cmath>

namespace datagen {

void Window::finished(double seconds, std::uint64_t bytes) {
  constexpr double kNew = 0.1;  // weight of the newest: ten shards are enough to follow a change
  const double share = measured_ ? kNew : 1;
  mean_seconds_ += share * (seconds - mean_seconds_);
  mean_bytes_ += share * (static_cast<double>(bytes) - mean_bytes_);
  measured_ = true;
}

std::size_t Window::open_max() const {
  double deep = settings_.ahead ? 2 : 1;
  if (settings_.ahead && measured_)
    deep = std::clamp(1 + std::ceil(kAheadSeconds / std::max(mean_seconds_, 1e-9)), 2.0,
                      static_cast<double>(kDeepest));
  double open = static_cast<double>(settings_.workers) * deep;
  if (measured_) open = std::min(open, static_cast<double>(settings_.open_bytes) / std::max(mean_bytes_, 1.0));
  return std::max<std::size_t>(1, static_cast<std::size_t>(open));
}

}  // namespace datagen

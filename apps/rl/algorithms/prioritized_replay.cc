#include "apps/rl/algorithms/prioritized_replay.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace rl {

PriorityTree::PriorityTree(const ReplayOptions& options)
    : options_(options),
      leaves_(std::bit_ceil(options.capacity)),
      sums_(2 * leaves_),
      smallest_(2 * leaves_, std::numeric_limits<double>::infinity()),
      priority_(options.capacity) {}

void PriorityTree::update(std::size_t index, double abs_td_error) { restore(index, abs_td_error + options_.epsilon); }

void PriorityTree::restore(std::size_t index, double priority) {
  priority_[index] = priority;
  std::size_t node = leaves_ + index;
  sums_[node] = smallest_[node] = std::pow(priority, options_.alpha);
  while (node > 1) {
    node /= 2;
    sums_[node] = sums_[2 * node] + sums_[2 * node + 1];  // added anew, so that errors do not pile up
    smallest_[node] = std::min(smallest_[2 * node], smallest_[2 * node + 1]);
  }
}

double PriorityTree::smallest_mass() const { return std::isfinite(smallest_[1]) ? smallest_[1] : 0.0; }

std::size_t PriorityTree::find(double mass) const {
  std::size_t node = 1;
  while (node < leaves_) {
    node *= 2;
    // Rounding may leave a little more mass than there is: never walk into an empty subtree.
    if (mass >= sums_[node] && sums_[node + 1] > 0) mass -= sums_[node++];
  }
  return node - leaves_;
}

std::vector<std::size_t> PriorityTree::sample(std::span<const double> draws) const {
  std::vector<std::size_t> out;
  const auto count = static_cast<double>(draws.size());
  for (std::size_t i = 0; i < draws.size(); ++i)
    out.push_back(find((static_cast<double>(i) + draws[i]) * total() / count));
  return out;
}

double PriorityTree::raw_weight(std::size_t index, double beta) const {
  return std::pow(static_cast<double>(options_.capacity) * probability(index), -beta);
}

double PriorityTree::largest_raw_weight(double beta) const {
  const double smallest = smallest_mass();
  return smallest > 0 ? std::pow(static_cast<double>(options_.capacity) * (smallest / total()), -beta) : 0.0;
}

}  // namespace rl

#include "apps/train/trainer/buckets.h"

#include <algorithm>

#include "kernels/cpu/optimizer/optimizer.h"

namespace troupe::train {

BucketPlan cut_buckets(std::size_t count, std::size_t element_bytes, std::size_t parts, const BucketOptions& options) {
  const std::size_t unit = kernels::kNormBlock * parts;
  BucketPlan plan{.count = count, .padded = (count + unit - 1) / unit * unit, .parts = parts};
  const auto whole = [&](std::size_t bytes) { return std::max(unit, bytes / element_bytes / unit * unit); };
  for (std::size_t end = plan.padded; end > 0;) {
    const std::size_t size = std::min(end, whole(plan.buckets.empty() ? options.first_bytes : options.bytes));
    plan.buckets.push_back({end - size, end});
    end -= size;
  }
  return plan;
}

BucketGate::Released BucketGate::final_from(std::size_t offset) {
  const std::size_t first = next_;
  while (next_ < plan_->buckets.size() && plan_->buckets[next_].begin >= offset) ++next_;
  return {first, next_};
}

}  // namespace troupe::train

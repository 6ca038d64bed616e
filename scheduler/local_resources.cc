#include "scheduler/local_resources.h"

#include <algorithm>

namespace troupe::sched {

LocalResources::LocalResources(const ResourceSet& total)
    : account_(total), gpus_(static_cast<int>((total.gpu + kUnit - 1) / kUnit)) {}

ResourceSet LocalResources::at_once() const {
  ResourceSet amounts = account_.available();
  amounts.gpu = std::min(amounts.gpu, gpus_.at_once());
  return amounts;
}

std::optional<Allocation> LocalResources::take(const ResourceSet& need) {
  if (!account_.can_grant(need)) return std::nullopt;
  std::optional<std::vector<int>> ids = gpus_.take(need.gpu);
  if (!ids) return std::nullopt;  // enough GPUs in sum, but not in one piece
  if (!account_.try_grant(need)) {
    gpus_.give_back(*ids, need.gpu);
    return std::nullopt;
  }
  return Allocation{need, std::move(*ids)};
}

void LocalResources::give_back(const Allocation& allocation, bool cpus_lent) {
  gpus_.give_back(allocation.gpu_ids, allocation.amount.gpu);
  ResourceSet amount = allocation.amount;
  if (cpus_lent) amount.cpu = 0;
  account_.give_back(amount);
}

}  // namespace troupe::sched

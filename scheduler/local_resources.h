// LocalResources: what this node has, given out in pieces: amounts by a ResourceAccount, GPUs by their numbers. Pure.
//
//   free --take--> an Allocation --give_back--> free;   its CPUs: --lend_cpus--> free --reclaim_cpus--> taken again
//
// Thread rule: one thread at a time.
//
// Invariants
//   LRS-1  take gives all that was asked for, or takes nothing.
//   LRS-2  available() falls below zero only in CPUs, and only by reclaim_cpus (RS-3).
//   LRS-3  What fits at_once() is what take() gives.
#pragma once
#include <optional>
#include <vector>

#include "scheduler/resources.h"

namespace troupe::sched {

struct Allocation {
  ResourceSet amount;
  std::vector<int> gpu_ids;  ///< ascending
};

class LocalResources {
 public:
  explicit LocalResources(const ResourceSet& total);

  const ResourceSet& total() const { return account_.total(); }
  const ResourceSet& available() const { return account_.available(); }
  /// What one request can have: as available(), but of GPUs those that are wholly free, or else the largest piece.
  ResourceSet at_once() const;

  /// nullopt: so much is not free, or the GPUs are not free in one piece.
  std::optional<Allocation> take(const ResourceSet& need);
  /// With its CPUs lent, it gives back the rest.
  void give_back(const Allocation& allocation, bool cpus_lent);
  void lend_cpus(const Allocation& allocation) { account_.lend_cpu(allocation.amount.cpu); }
  void reclaim_cpus(const Allocation& allocation) { account_.reclaim_cpu(allocation.amount.cpu); }

 private:
  ResourceAccount account_;
  GpuSlots gpus_;
};

}  // namespace troupe::sched

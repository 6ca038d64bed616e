// Placement: on which node each rank of a run goes, and whether there are GPUs for them.
//
// Invariants
//   TPL-1  One node is filled before the next, the driver's own first; ranks beyond the CPUs share them.
// Thread rule: of a driver; asks the cluster.
#pragma once
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/train/program/settings.h"

namespace troupe::train {

struct Placement {
  std::vector<std::string> nodes;  // one a rank
  double cpus = 1, gpus = 0;       // of each rank
};
Placement place_ranks(int ranks, Device device);

/// DR-4. Where ranks can be on this node, its plug-in is asked too: an error here is shorter than one of every rank.
Status check_gpus(int ranks);

}  // namespace troupe::train

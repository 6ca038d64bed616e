// Arguments: what is wrong with an operation by itself, on one rank, before anything is sent (GR-2).
//
// Pure; any thread.
#pragma once
#include <troupe/collective_types.h>

namespace troupe::collective::detail {

/// What of a rank and its group the checks depend on.
struct RankFacts {
  int rank = 0, ranks = 1;
  bool takes_device_memory = false;
};

/// Throws InvalidArgumentError: a root or peer that is no rank, sizes that do not fit, memory that overlaps, counts
/// that no memory holds.
void check_arguments(const Operation& operation, const RankFacts& own);

}  // namespace troupe::collective::detail

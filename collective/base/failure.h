// Failure: why a group has come to its end, as plain data that all ranks read.
//
// Invariants
//   CFL-1  A group tells what went wrong in a part of it in its own ranks: the part's numbers mean other ranks here.
// Pure values and functions; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <troupe/collective_types.h>

namespace troupe::collective {

struct Failure {
  Reason reason = Reason::kAborted;
  std::string text = {};
  std::vector<int> missing_ranks = {};
};

/// The failure that an error tells of: reason and ranks of a CollectiveError; of any other error kBackend, without
/// ranks.
Failure failure_of(const Error& error);
/// The failure of a part of a group as the group is to tell it (CFL-1). `members`: the group's rank of each of the
/// part's, empty where this rank is not in it. The reason stays; a number that is no rank of the part is left out.
Failure told_above(const Failure& of_part, const std::vector<int>& members);

}  // namespace troupe::collective

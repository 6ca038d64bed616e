// Failure: why a group has come to its end, as plain data that all ranks read.
//
// Pure values; any thread.
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

}  // namespace troupe::collective

// How long the loops wait for their actors, and what they share.
#pragma once

#include <algorithm>
#include <vector>

#include <troupe/troupe.h>

#include "apps/rl/actors/messages.h"
#include "apps/rl/loops/algorithm.h"

namespace rl {

/// In the order of the runners.
inline void add_report(RolloutReport report, Round& round) {
  round.ended.push_back(std::move(report.episodes));
  for (std::size_t kind = 0; kind < report.faults.size(); ++kind) round.faults[kind] += report.faults[kind];
}
/// Into the round, and the moments into those of the run.
inline void add_report(RolloutReport report, Moments& moments, Round& round) {
  merge(moments, report.deltas);
  add_report(std::move(report), round);
}

[[nodiscard]] inline std::vector<float> fetch(const ParamsRef& params) {
  const troupe::Array<float> array = troupe::get(params);
  return {array.span().begin(), array.span().end()};
}

}  // namespace rl

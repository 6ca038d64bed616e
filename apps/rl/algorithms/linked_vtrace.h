// V-trace (vtrace.h) over samples that name their successors, so that fragments with episodes that end anywhere in them
// need no padding and no shape. Pure; arrays are [B]; T is float or double; sums are taken in double.
//
//   row i is a transition    next[i] is the row that shows what came behind it: a later row, or i itself where
//                            discount[i] is 0
//   row i is none            next[i] is -1: it shows what came last (of a fragment, of an episode that was truncated or
//                            broken off), and bootstraps
//
// LVT-1  On rows in the order [step][environment], with a row of last observations behind them, targets and advantages
//        are those of vtrace().
// LVT-2  Of rows that are no transitions the target is the value and the advantage 0.
// LVT-3  A next that is none of these is an InvalidArgumentError, thrown, and nothing is written.
#pragma once

#include <cstdint>
#include <span>

#include "apps/rl/algorithms/vtrace.h"

namespace rl {

template <class T>
struct LinkedVtraceInput {
  std::span<const T> behaviour_log_prob, target_log_prob, discount, reward, value;
  std::span<const std::int64_t> next;
};

template <class T>
void linked_vtrace(const LinkedVtraceInput<T>& in, const VtraceOptions& options, std::span<T> vs,
                   std::span<T> pg_advantage);

}  // namespace rl

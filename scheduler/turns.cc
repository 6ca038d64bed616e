#include "scheduler/turns.h"

#include <algorithm>

namespace troupe::sched {

Turns::Round Turns::round_of(std::vector<Candidate> candidates) {
  std::ranges::stable_sort(candidates, {}, &Candidate::served);
  Round round;
  for (const Candidate& one : candidates) round[one.job][one.requester].push_back(one.request);
  return round;
}

}  // namespace troupe::sched

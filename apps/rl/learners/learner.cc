#include "apps/rl/learners/learner.h"

#include <troupe/error.h>

namespace rl {

void Learner::join(const Peers& peers) {
  if (!peers.alone()) troupe::InvalidArgumentError("this algorithm has one learner").raise();
}

}  // namespace rl

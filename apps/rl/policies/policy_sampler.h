// PolicySampler: draws actions of an actor-critic's policy and says how probable they were: what playing for learners
// that correct for older policies needs.
//
// One thread at a time; parameters are the caller's.
//
// PSA-1  Same parameters, observations and draws before: same actions and log-probabilities (DIS-4).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/policies/actor_critic.h"
#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/policy_spec.h"
#include "apps/rl/policies/seen.h"
#include "apps/rl/spaces/rows.h"

namespace rl {

class PolicySampler {
 public:
  /// Throws what check_policy says.
  PolicySampler(const PolicySpec& spec, std::uint64_t seed, troupe::kernels::Isa isa = troupe::kernels::best_isa());

  /// As many actions and log-probabilities as rows of observations.
  void choose(std::span<const float> params, const Seen& seen, Rows actions, std::span<float> log_prob);

 private:
  ActorCritic<float> net_;
  ObservationEncoder encoder_;
  std::unique_ptr<Distribution<float>> distribution_;
  Generator generator_;
  std::vector<float> encoded_, action_params_, values_;
};

}  // namespace rl

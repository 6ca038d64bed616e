// PolicyActor: a policy that acts in many environments at once, each with random draws of its own.
//
// One thread at a time. The policy outlives it.
//
// PAC-1  The action of a row is a function of the policy, the instruction set, that row's observation and the row's own
//        generator: rows do not influence each other (MM-2), and each draws from its generator alone.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/generators/trajectories/mixture.h"
#include "apps/rl/policies/any_policy.h"
#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/training/checkpoint.h"

namespace datagen {

/// InvalidArgumentError for a behaviour that such a policy does not have: a Q-network has no probabilities to draw by.
[[nodiscard]] troupe::Status check_behaviour(const rl::AnyPolicySpec& spec, Behaviour behaviour);

class PolicyActor {
 public:
  PolicyActor(const rl::Policy& policy, troupe::kernels::Isa isa);

  /// The best actions.
  void best(rl::ConstRows obs, rl::Rows actions) { player_->best(policy_.params, obs, actions); }
  /// Drawn. `log_prob`: one a row; NaN where the policy does not say it.
  void sample(rl::ConstRows obs, std::span<rl::Generator> draws, rl::Rows actions, std::span<float> log_prob);

 private:
  const rl::Policy& policy_;
  std::unique_ptr<rl::Player> player_;
  rl::ObservationEncoder encoder_;
  std::optional<rl::ActorCritic<float>> network_;           // of an actor-critic
  std::unique_ptr<rl::Distribution<float>> distribution_;   // of its actions
  std::optional<rl::SquashedGaussian> squashed_;            // of SAC's actor
  std::vector<float> encoded_, action_params_, values_;
  std::vector<double> normals_;
};

/// Any actions, a row from each generator. `log_prob`: of each, or NaN. Raises for a Box without bounds.
void any_actions(const rl::Space& action_space, std::span<rl::Generator> draws, rl::Rows actions,
                 std::span<float> log_prob);
/// With probability epsilon any in place of the best. `log_prob`: of choices of one place, else NaN.
void now_and_then_any(const rl::Space& action_space, double epsilon, std::span<rl::Generator> draws, rl::Rows actions,
                      std::span<float> log_prob);

}  // namespace datagen

// AnyPolicySpec: what has to be known of a policy of any algorithm but its parameters, and a Player that acts by it.
//
//   actor_critic       PolicySpec              PPO and its relatives: a distribution and a value
//   q_network          QNetworkSpec            DQN: the value of each choice
//   squashed_gaussian  SquashedGaussianSpec    SAC: normal numbers within bounds
//
// Specifications are plain values: stored with parameters, sent to runners and learners. A Player has no runtime; one
// thread at a time; parameters are the caller's.
//
// Invariants
//   PLR-1  best() draws nothing: same parameters and observations, same actions.
//   PLR-2  explore() draws as the policy's class says (DIS-4, QPO-2, SQG-3): same parameters, observations and
//          generator, same actions.
//   PLR-3  What is masked is neither best, nor drawn. Numbers cannot be masked: a mask for them is an
//          InvalidArgumentError, thrown.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/policies/policy_spec.h"
#include "apps/rl/policies/q_network.h"
#include "apps/rl/policies/seen.h"
#include "apps/rl/policies/squashed_gaussian.h"
#include "apps/rl/spaces/rows.h"

namespace rl {

using AnyPolicySpec = std::variant<PolicySpec, QNetworkSpec, SquashedGaussianSpec>;

[[nodiscard]] const Space& observation_space_of(const AnyPolicySpec& spec);
[[nodiscard]] const Space& action_space_of(const AnyPolicySpec& spec);
/// Whether its actions are within the bounds of a Box, whatever it draws.
[[nodiscard]] bool keeps_bounds(const AnyPolicySpec& spec);
[[nodiscard]] std::size_t parameter_count_of(const AnyPolicySpec& spec);
/// What check_policy, check_q_network or check_squashed_gaussian say.
[[nodiscard]] troupe::Status check_policy(const AnyPolicySpec& spec);

/// With "kind": the word of the table above.
[[nodiscard]] boost::json::value to_json(const AnyPolicySpec& spec);
/// InvalidArgumentError for what to_json does not give.
[[nodiscard]] troupe::Result<AnyPolicySpec> any_policy_from_json(const boost::json::value& json);

/// One array of a policy's parameters, by the name that files use: "policy/hidden0/weight".
struct PolicyPart {
  std::string name;
  std::vector<std::size_t> shape;
  std::size_t begin = 0, count = 0;  // in the flat array
};
/// All of them, in the order of the flat array.
[[nodiscard]] std::vector<PolicyPart> parts_of(const AnyPolicySpec& spec);

struct Exploration {
  double epsilon = 0;      // how often a Q-network's action is any
  GivenNoise noise = {};   // of a squashed Gaussian
};

class Player {
 public:
  virtual ~Player() = default;
  /// What the policy takes for the best.
  virtual void best(std::span<const float> params, const Seen& seen, Rows actions) = 0;
  /// As training plays.
  virtual void explore(std::span<const float> params, const Seen& seen, const Exploration& how, Generator& generator,
                       Rows actions) = 0;
};
/// Throws what check_policy says.
[[nodiscard]] std::unique_ptr<Player> make_player(const AnyPolicySpec& spec,
                                                  troupe::kernels::Isa isa = troupe::kernels::best_isa());

/// Any actions, each as likely as another: elements of a Discrete or MultiDiscrete space that `mask` allows (as
/// Seen::mask), or numbers between a Box's bounds. InvalidArgumentError, thrown, for a Box without bounds or with a
/// mask.
void random_actions(const Space& action_space, Generator& generator, Rows actions,
                    std::span<const std::uint8_t> mask = {});

}  // namespace rl

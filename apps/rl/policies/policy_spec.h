// PolicySpec: all that has to be known of a policy but its parameters: what it sees, what it does, by which networks.
//
// A plain value: stored with parameters, sent to runners and learners.
#pragma once

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/policies/actor_critic.h"
#include "apps/rl/spaces/space.h"

namespace rl {

struct PolicySpec {
  Space observation_space = {}, action_space = {};
  ActorCriticSpec networks = {};
  friend bool operator==(const PolicySpec&, const PolicySpec&) = default;
};

/// As actor_critic_for.
[[nodiscard]] troupe::Result<PolicySpec> policy_for(const Space& observation_space, const Space& action_space,
                                                    const NetworkOptions& options = {});
/// InvalidArgumentError when the networks do not fit the spaces.
[[nodiscard]] troupe::Status check_policy(const PolicySpec& spec);
[[nodiscard]] boost::json::value to_json(const PolicySpec& spec);
/// InvalidArgumentError for what to_json does not give, or check_policy refuses.
[[nodiscard]] troupe::Result<PolicySpec> policy_from_json(const boost::json::value& json);

}  // namespace rl

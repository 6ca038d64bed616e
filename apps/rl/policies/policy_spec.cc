#include "apps/rl/policies/policy_spec.h"

#include <fmt/format.h>

#include "apps/rl/policies/distribution.h"
#include "apps/rl/policies/observation_encoder.h"

namespace rl {

troupe::Result<PolicySpec> policy_for(const Space& observation_space, const Space& action_space,
                                      const NetworkOptions& options) {
  auto networks = actor_critic_for(observation_space, action_space, options);
  if (!networks.ok()) return networks.error_ptr();
  return PolicySpec{.observation_space = observation_space,
                    .action_space = action_space,
                    .networks = std::move(*networks)};
}

troupe::Status check_policy(const PolicySpec& spec) {
  if (troupe::Status checked = check_actor_critic(spec.networks); !checked.ok()) return checked;
  const auto encoder = ObservationEncoder::make(spec.observation_space);
  if (!encoder.ok()) return encoder.error_ptr();
  const auto distribution = make_distribution<float>(spec.action_space);
  if (!distribution.ok()) return distribution.error_ptr();
  if (encoder->size() != spec.networks.inputs())
    return troupe::InvalidArgumentError(fmt::format("a network of {} inputs does not fit {}", spec.networks.inputs(),
                                                    to_string(spec.observation_space)));
  if ((*distribution)->parameters() != spec.networks.distribution_size())
    return troupe::InvalidArgumentError(fmt::format("a network of {} outputs does not fit {}",
                                                    spec.networks.distribution_size(), to_string(spec.action_space)));
  return {};
}

boost::json::value to_json(const PolicySpec& spec) {
  return {{"observation_space", to_json(spec.observation_space)},
          {"action_space", to_json(spec.action_space)},
          {"networks", to_json(spec.networks)}};
}

troupe::Result<PolicySpec> policy_from_json(const boost::json::value& json) {
  try {
    const boost::json::object& object = json.as_object();
    PolicySpec out;
    out.observation_space = space_from_json(object.at("observation_space")).value();
    out.action_space = space_from_json(object.at("action_space")).value();
    out.networks = actor_critic_from_json(object.at("networks")).value();
    if (troupe::Status checked = check_policy(out); !checked.ok()) return checked.error_ptr();
    return out;
  } catch (const std::exception& error) {
    return troupe::InvalidArgumentError(fmt::format("policy: {}", error.what()));
  }
}

}  // namespace rl

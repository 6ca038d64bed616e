#include "apps/rl/config/algorithm_config.h"

#include <algorithm>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "apps/common/nearest_name.h"
#include "apps/rl/config/algorithms/a2c.h"
#include "apps/rl/config/algorithms/ars.h"
#include "apps/rl/config/algorithms/bc.h"
#include "apps/rl/config/algorithms/dqn.h"
#include "apps/rl/config/algorithms/impala.h"
#include "apps/rl/config/algorithms/ppo.h"
#include "apps/rl/config/algorithms/sac.h"

namespace rl {
namespace {

std::deque<AlgorithmConfig>& algorithm_registry() {
  static std::deque<AlgorithmConfig> all{ppo_algorithm(), a2c_algorithm(), impala_algorithm(), dqn_algorithm(),
                                         sac_algorithm(), ars_algorithm(), bc_algorithm()};
  return all;
}

const AlgorithmConfig* registered(const std::string& name) {
  const auto at = std::ranges::find(algorithm_registry(), name, &AlgorithmConfig::name);
  return at == algorithm_registry().end() ? nullptr : &*at;
}

}  // namespace

void register_algorithm(AlgorithmConfig algorithm) {
  if (algorithm.name.empty() || !algorithm.policy || !algorithm.learner)
    troupe::InvalidArgumentError(fmt::format("algorithm '{}' needs a name, a policy and a learner", algorithm.name))
        .raise();
  if (registered(algorithm.name) != nullptr)
    troupe::InvalidArgumentError(fmt::format("there is an algorithm '{}' already", algorithm.name)).raise();
  algorithm_registry().push_back(std::move(algorithm));
}

troupe::Result<const AlgorithmConfig*> algorithm_config(const std::string& name) {
  if (const AlgorithmConfig* found = registered(name)) return found;
  return troupe::InvalidArgumentError(fmt::format("there is no algorithm '{}': did you mean '{}'?", name,
                                                  apps::nearest_name(name, algorithm_names())));
}

std::vector<const AlgorithmConfig*> algorithm_configs() {
  std::vector<const AlgorithmConfig*> out;
  for (const AlgorithmConfig& one : algorithm_registry()) out.push_back(&one);
  return out;
}

}  // namespace rl

#include "apps/rl/policies/distribution.h"

#include "apps/rl/policies/categorical.h"
#include "apps/rl/policies/gaussian.h"

namespace rl {

troupe::Result<std::unique_ptr<Distribution>> make_distribution(const Space& action_space) {
  if (troupe::Status sound = check_space(action_space); !sound.ok()) return sound.error_ptr();
  if (const auto* one = std::get_if<Discrete>(&action_space))
    return std::unique_ptr<Distribution>(
        std::make_unique<MultiCategorical>(MultiDiscrete{.nvec = {one->n}, .start = {one->start}}));
  if (const auto* several = std::get_if<MultiDiscrete>(&action_space))
    return std::unique_ptr<Distribution>(std::make_unique<MultiCategorical>(*several));
  if (dtype_of(action_space) != DType::kFloat32)
    return troupe::InvalidArgumentError("no distribution of actions for " + to_string(action_space));
  return std::unique_ptr<Distribution>(std::make_unique<Gaussian>(elements_of(action_space)));
}

}  // namespace rl

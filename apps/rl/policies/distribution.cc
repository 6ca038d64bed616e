#include "apps/rl/policies/distribution.h"

#include "apps/rl/policies/categorical.h"
#include "apps/rl/policies/gaussian.h"

namespace rl {

template <class T>
troupe::Result<std::unique_ptr<Distribution<T>>> make_distribution(const Space& action_space) {
  using Made = std::unique_ptr<Distribution<T>>;
  if (troupe::Status sound = check_space(action_space); !sound.ok()) return sound.error_ptr();
  if (const auto* one = std::get_if<Discrete>(&action_space))
    return Made(std::make_unique<MultiCategorical<T>>(MultiDiscrete{.nvec = {one->n}, .start = {one->start}}));
  if (const auto* several = std::get_if<MultiDiscrete>(&action_space))
    return Made(std::make_unique<MultiCategorical<T>>(*several));
  if (dtype_of(action_space) != DType::kFloat32)
    return troupe::InvalidArgumentError("no distribution of actions for " + to_string(action_space));
  return Made(std::make_unique<Gaussian<T>>(elements_of(action_space)));
}

template troupe::Result<std::unique_ptr<Distribution<float>>> make_distribution<float>(const Space&);
template troupe::Result<std::unique_ptr<Distribution<double>>> make_distribution<double>(const Space&);

}  // namespace rl

#include "apps/rl/samples/transitions.h"

#include <fmt/format.h>

namespace rl {

std::vector<Column> transition_columns(const Space& observation_space, const Space& action_space) {
  return {column_of("obs", observation_space), column_of("action", action_space), {.name = "reward"},
          column_of("next_obs", observation_space), {.name = "discount"}};
}

TransitionView transition_view(const SampleView& samples, const Space& observation_space,
                               const Space& action_space) {
  TransitionView out{.obs = samples.column("obs"),
                     .action = samples.column("action"),
                     .next_obs = samples.column("next_obs"),
                     .reward = samples.column("reward").as<float>(),
                     .discount = samples.column("discount").as<float>(),
                     .weight = {}};
  if (samples.has("weight")) out.weight = samples.column("weight").as<float>();
  const auto fits = [](ConstRows rows, const Space& space) {
    return rows.dtype() == dtype_of(space) && rows.width() == elements_of(space);
  };
  if (!fits(out.obs, observation_space) || !fits(out.next_obs, observation_space) || !fits(out.action, action_space))
    troupe::InvalidArgumentError(fmt::format("transitions of other spaces than {} and {}", to_string(observation_space),
                                             to_string(action_space)))
        .raise();
  return out;
}

}  // namespace rl

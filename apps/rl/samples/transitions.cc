#include "apps/rl/samples/transitions.h"

#include <fmt/format.h>

namespace rl {

std::vector<Column> transition_columns(const Space& observation_space, const Space& action_space,
                                       std::size_t mask_width) {
  std::vector<Column> out{column_of("obs", observation_space), column_of("action", action_space), {.name = "reward"},
                          column_of("next_obs", observation_space), {.name = "discount"}};
  if (mask_width != 0) out.push_back({.name = kNextMaskColumn, .dtype = DType::kUint8, .width = mask_width});
  return out;
}

TransitionView transition_view(const SampleView& samples, const Space& observation_space,
                               const Space& action_space) {
  TransitionView out{.obs = samples.column("obs"),
                     .action = samples.column("action"),
                     .next_obs = samples.column("next_obs"),
                     .reward = samples.column("reward").as<float>(),
                     .discount = samples.column("discount").as<float>(),
                     .weight = {},
                     .next_mask = {}};
  if (samples.has("weight")) out.weight = samples.column("weight").as<float>();
  if (samples.has(kNextMaskColumn)) {
    const ConstRows mask = samples.column(kNextMaskColumn);
    if (mask.width() != choices_of(action_space))
      troupe::InvalidArgumentError(fmt::format("a mask of {} choices for {}", mask.width(), to_string(action_space)))
          .raise();
    out.next_mask = mask.as<std::uint8_t>();
  }
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

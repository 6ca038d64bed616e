// A picture of an environment from what it lets agents observe. Pure; any thread.
//
// DRW-1  By name: the classic five (draw_classic.h), whoever plays them ("gym:CartPole-v1" is CartPole-v1 in
//        Gymnasium). By the space of the observations: bool [h, w, n] as a grid, uint8 [h, w], [h, w, 1] and [h, w,
//        3] as an image (draw_grid.h). Anything else is a NotFoundError that says what can be drawn.
// DRW-2  All pictures of an environment have one size.
#pragma once

#include <optional>
#include <string_view>

#include <troupe/result.h>

#include "apps/rl/record/frame.h"
#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"

namespace rl {

/// OK when observations of this space, of the environment of this name, can be drawn. To be asked before playing.
[[nodiscard]] troupe::Status check_drawable(std::string_view env_id, const Space& observations);

/// `observation` is one row. `action`: the number that was applied before it, for what no observation shows (the arrow
/// of Pendulum-v1). InvalidArgumentError when the row is not of the space.
[[nodiscard]] troupe::Result<Frame> draw(std::string_view env_id, const Space& observations, ConstRows observation,
                                         std::optional<double> action = {});

}  // namespace rl

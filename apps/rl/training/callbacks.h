// Callbacks: what a user's program wants to see of a training run while it goes on, and to end it early.
//
//   register_callback([](const TrainingLog& log) { return log.steps > 100'000 && log.mean_return() < 50; });
//
// Registration belongs into main, before troupe::run. Callbacks run in the driver, one after the other, after every
// round; training waits for them.
//
// CBK-1  All are called after every round, in the order of their registration, also when an earlier one ends the run.
// CBK-2  An exception of one is the run's error, and says that it came from there; what was learned is kept.
#pragma once

#include <functional>

#include "apps/rl/training/training_log.h"

namespace rl {

/// True ends the run after this round, as if its steps were over.
using TrainingCallback = std::function<bool(const TrainingLog&)>;

/// InvalidArgumentError, thrown, for an empty one.
void register_callback(TrainingCallback callback);
/// Whether there are any.
[[nodiscard]] bool has_callbacks();
/// Whether one of them wants the run to end.
[[nodiscard]] bool call_callbacks(const TrainingLog& log);

}  // namespace rl

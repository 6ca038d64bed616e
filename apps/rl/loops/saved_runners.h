// The states of a run's runners in a checkpoint, and whether they can be gone on with.
//
//   parts: "runners/shape" [how many, environments of each], "runners/0/...", "runners/1/...", ...
//
// SVR-1  All runners go on, or none does: a batch of some old and some new episodes would be no run's.
// SVR-2  They go on only as what they were: of the same shape, environment, n_step and noise. Others begin new
//        episodes, and the note says why.
// SVR-3  A runner that does not answer in time is the save's error, or all are left out and the state's note says so
//        (SaveOptions). Any other error of a runner, its death too, means that it cannot be saved (SVR-1).
// SVR-4  A Ctrl-C is no runner's error: CancelledError, thrown.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/troupe.h>

#include "apps/rl/loops/algorithm.h"
#include "apps/rl/loops/waits.h"

namespace rl {

struct SavedRunners {
  std::vector<std::optional<StateDict>> states;  // one a runner; none: it begins new episodes
  std::string note;                              // what the user should know; empty: they go on
};
[[nodiscard]] SavedRunners saved_runners(const RunConfig& config, const std::optional<ResumePoint>& resumed);

/// Of a state without runners, as one did not answer in time.
[[nodiscard]] std::string late_note(std::chrono::seconds deadline);

/// Into the parts of `out`, unless they cannot be saved. GetTimeoutError: SVR-3; throws CancelledError (SVR-4).
template <class Actor>
[[nodiscard]] troupe::Status save_runners(const RunConfig& config,
                                          const std::vector<troupe::ActorHandle<Actor>>& runners,
                                          const SaveOptions& options, AlgorithmState& out) {
  std::vector<troupe::ObjectRef<std::optional<StateDict>>> asked;
  for (const auto& runner : runners) asked.push_back(runner.template call<&Actor::save>());
  StateDict all;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto state = troupe::try_get(asked[i], {.timeout = options.deadline});
    if (!state.ok() && state.error().code() == troupe::ErrorCode::kCancelled) state.error().raise();
    if (!state.ok() && state.error().code() == troupe::ErrorCode::kGetTimeout) {  // SVR-3
      if (options.late_runners == LateRunners::kRefuse) return state.error_ptr();
      out.note = late_note(options.deadline);
    }
    if (!state.ok() || !*state) return {};  // SVR-1
    all.put_all(std::to_string(i), **state);
  }
  all.put("shape", std::vector<std::uint64_t>{config.num_workers, config.num_envs});
  out.parts.put_all("runners", all);
  return {};
}

}  // namespace rl

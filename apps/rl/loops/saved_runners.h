// The states of a run's runners in a checkpoint, and whether they can be gone on with.
//
//   parts: "runners/shape" [how many, environments of each], "runners/0/...", "runners/1/...", ...
//
// SVR-1  All runners go on, or none does: a batch of some old and some new episodes would be no run's.
// SVR-2  They go on only as what they were: of the same shape, environment, n_step and noise. Others begin new
//        episodes, and the note says why.
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

/// Into `parts`, unless they cannot be saved or one does not answer in time.
template <class Actor>
void save_runners(const RunConfig& config, const std::vector<troupe::ActorHandle<Actor>>& runners,
                  std::chrono::seconds deadline, StateDict& parts) {
  std::vector<troupe::ObjectRef<std::optional<StateDict>>> asked;
  for (const auto& runner : runners) asked.push_back(runner.template call<&Actor::save>());
  StateDict all;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto state = troupe::try_get(asked[i], {.timeout = deadline});
    if (!state.ok() || !*state) return;  // SVR-1
    all.put_all(std::to_string(i), **state);
  }
  all.put("shape", std::vector<std::uint64_t>{config.num_workers, config.num_envs});
  parts.put_all("runners", all);
}

}  // namespace rl

#include "apps/rl/loops/saved_runners.h"

#include <fmt/format.h>

namespace rl {

SavedRunners saved_runners(const RunConfig& config, const std::optional<ResumePoint>& resumed) {
  SavedRunners out{.states = std::vector<std::optional<StateDict>>(config.num_workers), .note = {}};
  if (!resumed) return out;
  const StateDict kept = resumed->state.parts.get_all("runners");
  if (!kept.has("shape")) {
    out.note = fmt::format("the checkpoint has no states of {}, whose environments begin new episodes", config.env.id);
    return out;
  }
  const auto& shape = kept.get<std::uint64_t>("shape", 2);
  if (shape[0] != config.num_workers || shape[1] != config.num_envs) {
    out.note = fmt::format("it was {} runners of {} environments: those of now begin new episodes", shape[0], shape[1]);
    return out;
  }
  for (std::size_t i = 0; i < out.states.size(); ++i) out.states[i] = kept.get_all(std::to_string(i));
  return out;
}

}  // namespace rl

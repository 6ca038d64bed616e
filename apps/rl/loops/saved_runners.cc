#include "apps/rl/loops/saved_runners.h"

#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rl {
namespace {

/// The settings by which the state of a runner is made, but for how a Python process is kept.
std::vector<std::string> settings_that_differ(RunConfig was, RunConfig now) {
  was.env.python = now.env.python, was.env.gym_import = now.env.gym_import;
  was.env.step_deadline = now.env.step_deadline, was.env.env_restarts = now.env.env_restarts;
  std::vector<std::string> out;
  const std::vector<Setting> before = settings_of(was.env), after = settings_of(now.env);
  for (std::size_t i = 0; i < before.size(); ++i)
    if (value_of(before[i]) != value_of(after[i])) out.push_back(before[i].name);
  if (was.replay.n_step != now.replay.n_step) out.emplace_back("n_step");
  if (was.sac.noise != now.sac.noise) out.emplace_back("noise");
  if (was.sac.noise_interval != now.sac.noise_interval) out.emplace_back("noise_interval");
  return out;
}

}  // namespace

std::string late_note(std::chrono::seconds deadline) {
  return fmt::format("a runner did not answer within {} s: the checkpoint has no states of environments",
                     deadline.count());
}

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
  if (const auto others = settings_that_differ(resumed->config, config); !others.empty()) {
    out.note = fmt::format("with another {}, environments begin new episodes", fmt::join(others, ", "));
    return out;
  }
  for (std::size_t i = 0; i < out.states.size(); ++i) out.states[i] = kept.get_all(std::to_string(i));
  return out;
}

}  // namespace rl

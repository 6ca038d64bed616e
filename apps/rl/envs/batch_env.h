// BatchEnv: n environments that are stepped together, with Gymnasium's semantics: what training sees of any
// environment, ours, a user's, or one that runs in Python.
//
//   make_batch_env --> reset(seeds) --> observe --> step(actions, out) --> ends() --> step ...
//
// One thread at a time. The caller owns all rows that are written; what ends() gives is valid until the next call.
//
// Invariants
//   BE-1  Environment i draws from its own stream, begun by seeds[i]: what it does depends neither on n nor on i.
//   BE-2  kSameStep: the step that ends an episode gives the first observation of the next one; the last one of the
//         old is in ends().final_obs. is_reset is 0 everywhere but in a faulted row (BE-7).
//   BE-3  kNextStep: the ending step gives the last observation; the next call ignores that environment's action,
//         begins its next episode and gives its first observation, reward 0 and no flags. Such a row is no transition:
//         is_reset is 1.
//   BE-4  kDisabled: an environment that ended has to be reset by its caller; stepping it before that is an
//         InvalidArgumentError.
//   BE-5  `truncated` says that the time limit was reached, `terminated` that the task says so; both can be.
//   BE-6  An action that is not of the action space is an InvalidArgumentError that names the environment, except that
//         a Box's bounds are the task's own business (Gymnasium's environments clip, or do not).
//   BE-7  A fault (an environment threw, its process ended or stalled) breaks an episode off: it is in faults(), not in
//         ends(), and neither terminated nor truncated; its sum of rewards is no return. In every mode the environment
//         begins anew at once, in a stream that it has not had: the row has reward 0, no flags, the next episode's
//         first observation, and is_reset is 1: no transition. The episode's good prefix ends with the observation
//         that the last action was chosen for: whoever trains bootstraps from there, or drops the prefix.
//   BE-8  After restore_state of what save_state gave (state_visitor.h), between any two calls, all that comes is what
//         would have come: observations, rewards, flags, ends, faults. It works in a batch that was made with the same
//         options. ends() and faults() of the step before are not kept.
//   BE-9  Where specs().masks_actions says so, and only there, action_mask() shows a row for each environment from
//         reset() on, and with kSameStep ends() shows one for each final_obs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <troupe/result.h>

#include "apps/rl/envs/faults.h"
#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"
#include "apps/rl/state/state_visitor.h"

namespace rl {

enum class AutoReset { kNextStep, kSameStep, kDisabled };

/// Which task it is. `id` is what make_batch_env takes.
struct EnvSpecs {
  std::string id;
  Space observation_space, action_space;
  std::optional<int> max_episode_steps;     // the time limit that is in force; none: it truncates never, or by itself
  std::optional<double> reward_threshold;   // the mean return from which it counts as solved
  std::string gym_spec = {};                // of a bridged one: JSON of Gymnasium's EnvSpec; empty: it has none
  bool masks_actions = false;               // not every choice is allowed at all times (BE-9)
  bool fires = false;                       // an Atari game whose second action is FIRE
};

/// Bytes of a row of its action_mask(); 0: it has none.
[[nodiscard]] inline std::size_t mask_width_of(const EnvSpecs& specs) {
  return specs.masks_actions ? choices_of(specs.action_space) : 0;
}

/// Where a step writes; one row an environment.
struct StepOut {
  Rows obs;
  std::span<double> reward;
  std::span<std::uint8_t> terminated, truncated, is_reset;
};

/// Episodes that ended in the last step.
struct EpisodeEnds {
  std::span<const std::uint32_t> env;     // ascending
  std::span<const double> returns;
  std::span<const std::int64_t> lengths;  // in steps
  ConstRows final_obs;                    // a row for each; kSameStep only, else none
  std::span<const std::uint8_t> final_mask = {};  // what is allowed at final_obs, as action_mask(); BE-9
};

class BatchEnv {
 public:
  virtual ~BatchEnv() = default;
  [[nodiscard]] virtual const EnvSpecs& specs() const = 0;
  [[nodiscard]] virtual std::size_t size() const = 0;

  /// Begins an episode in each. As many seeds as environments.
  virtual void reset(std::span<const std::uint64_t> seeds) = 0;
  /// Begins an episode in one, in its own stream (kDisabled).
  virtual void reset_one(std::size_t env) = 0;
  /// The observations as they are now.
  virtual void observe(Rows obs) const = 0;
  /// `actions`: a row an environment, of the action space's type and width.
  virtual void step(ConstRows actions, const StepOut& out) = 0;
  [[nodiscard]] virtual EpisodeEnds ends() const = 0;

  /// Which choices are allowed at what is observed now: a row an environment, a byte a choice (of all places of a
  /// MultiDiscrete, one after the other), 1 for allowed. Empty: all are, always. Valid until the next call.
  [[nodiscard]] virtual std::span<const std::uint8_t> action_mask() const { return {}; }
  /// How many lives are left, a number an environment. Empty: this task has none. Valid until the next call.
  [[nodiscard]] virtual std::span<const std::int32_t> lives() const { return {}; }
  /// Of the last step, by environment, ascending. Environments that cannot fault have none.
  [[nodiscard]] virtual std::span<const Fault> faults() const { return {}; }

  /// All that changes in it (BE-8). False: it cannot be saved, and nothing was visited that matters.
  virtual bool visit(StateVisitor&) { return false; }
};

/// Whether each row of a step that begins anew follows a fault (BE-7): else the environment resets itself.
[[nodiscard]] inline bool only_faults_reset(std::span<const std::uint8_t> is_reset, std::span<const Fault> faults) {
  const auto begun = std::count_if(is_reset.begin(), is_reset.end(), [](std::uint8_t flag) { return flag != 0; });
  const auto shows = [&](const Fault& fault) { return is_reset[fault.env] != 0; };
  return begun == std::count_if(faults.begin(), faults.end(), shows);  // an environment faults once in a step
}

/// Memory for the results of steps; for programs and tests that keep them nowhere else.
class StepBuffers {
 public:
  explicit StepBuffers(const BatchEnv& env)
      : obs(env.specs().observation_space, env.size()),
        reward(env.size()),
        terminated(env.size()),
        truncated(env.size()),
        is_reset(env.size()) {}
  [[nodiscard]] StepOut out() { return {obs.view(), reward, terminated, truncated, is_reset}; }

  OwnedRows obs;
  std::vector<double> reward;
  std::vector<std::uint8_t> terminated, truncated, is_reset;
};

}  // namespace rl

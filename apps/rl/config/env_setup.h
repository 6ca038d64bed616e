// EnvSetup: which environment, and what is put around it. A plain value: sent to runners, kept in checkpoints.
//
//   the environment ─▶ atari: what is usual around a game (wrappers/atari.h)
//                   ─▶ CheckFinite ─▶ RescaleAction ─▶ ClipAction (of a Box; its bounds are seen no more) ─▶ ClipReward
//                   ─▶ NormalizeReward ─▶ FrameStack ─▶ NormalizeObservation
//
// ENS-1  Returns and lengths of episodes are raw, whatever is put around (env_wrapper.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/config/setting.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/wrappers/normalize.h"

namespace rl {

struct EnvSetup {
  std::string id = "CartPole-v1";
  std::string kwargs = "{}";           // JSON, for the environment
  std::int64_t max_episode_steps = 0;  // 0: the environment's own
  bool normalize_observation = false, normalize_reward = false;
  double clip_reward = 0;              // 0: not
  bool rescale_action = false;         // a Box of [-1, 1] in place of its bounds
  std::uint64_t frame_stack = 1;
  bool atari = false;                  // one picture of 84 x 84 for four frames, a life an episode, ...
  // Of "gym:" (gym_options.h).
  std::string python = GymOptions{}.python;
  std::string gym_import = {};
  bool working_folder = false;         // modules there can be imported; no setting: whoever had names typed sets it
  double step_deadline = 30;           // seconds
  std::uint64_t env_restarts = 5;      // of a process in a minute
  friend bool operator==(const EnvSetup&, const EnvSetup&) = default;
};

/// Those of the environment, for the list of a run.
[[nodiscard]] std::vector<Setting> settings_of(EnvSetup& setup);

/// For a setup that a file gave (a policy, a checkpoint): InvalidArgumentError where it names a program that somebody
/// else could have put there (NPG-1), whatever the environment: a prefix before "gym:" hides it.
[[nodiscard]] troupe::Status check_programs(const EnvSetup& setup);

/// Whether the working folder may be searched for modules, where the user typed these settings of the setup (NPG-1).
[[nodiscard]] bool typed_modules(const EnvSetup& setup, const boost::json::object& typed);

/// The moments that runners learn together, in this order: of observations, of returns; only those in use.
using Moments = std::vector<RunningMoments>;

class MadeEnv {
 public:
  struct Use {
    std::size_t num_envs = 1;
    double gamma = 0.99;   // of the returns whose deviation divides rewards
    bool frozen = false;   // evaluation: nothing is learned, rewards are raw
    bool clip_action = true;  // of a Box; else the policy keeps its bounds (keeps_bounds) and sees them
    bool masks = false;    // whoever plays heeds action_mask(); else an environment that has one is refused
  };
  /// What make_batch_env and the wrappers say of it. InvalidArgumentError for an environment whose mask nobody would
  /// heed (Use::masks).
  static troupe::Result<MadeEnv> make(const EnvSetup& setup, const Use& use);

  [[nodiscard]] BatchEnv& env() { return *env_; }
  [[nodiscard]] const EnvSpecs& specs() const { return env_->specs(); }
  /// What everything is put around: for who wants to see what it shows.
  [[nodiscard]] const BatchEnv& innermost() const { return *innermost_; }
  /// Bytes of a row of action_mask(); 0: the environment allows every choice.
  [[nodiscard]] std::size_t mask_width() const { return mask_width_; }
  /// What is allowed at what is observed now: [environments][mask_width()]; called once a step. InvalidArgumentError,
  /// thrown, for one of another size than specs() promise, and for one that allows nothing: it names environment and
  /// step.
  [[nodiscard]] std::span<const std::uint8_t> action_mask() {
    return mask_width_ == 0 && steps_seen_ > 0 ? std::span<const std::uint8_t>() : checked_mask();
  }
  /// What was learned since the last call.
  [[nodiscard]] Moments take_deltas();
  /// InvalidArgumentError (thrown) when they are those of another setup.
  void sync(const Moments& moments);
  /// At the start of a run.
  [[nodiscard]] Moments moments() const;
  /// BE-8.
  bool visit(StateVisitor& visitor) { return env_->visit(visitor); }

 private:
  MadeEnv() = default;
  std::span<const std::uint8_t> checked_mask();

  std::unique_ptr<BatchEnv> env_;
  const BatchEnv* innermost_ = nullptr;
  std::vector<SharedMoments*> shared_;  // of wrappers inside of env_
  std::size_t mask_width_ = 0;
  std::int64_t steps_seen_ = 0;         // calls of action_mask()
};

/// Merges the deltas of all runners, in their order.
void merge(Moments& into, const Moments& delta);

}  // namespace rl

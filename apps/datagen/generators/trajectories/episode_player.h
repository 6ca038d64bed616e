// EpisodePlayer: plays episodes, some at once, each in an environment that its own seed began.
//
//   play(tasks) ─▶ reset(seeds) ─▶ act, step, ... ─▶ an Episode for each      an environment that is done plays on, and
//                                                                            nobody looks at it
//
// One thread at a time. The policies outlive it.
//
// EPL-1  An episode is a function of the setup, the policy, the instruction set, its seeds and how it is played: not
//        of what is played beside it (BE-1, PAC-1), nor of what was played before (every episode begins with a reset by
//        its seed).
// EPL-2  An episode that a fault broke off (BE-7) is played anew from its seeds, kMostFaults times; then a
//        RuntimeEnvError is thrown that names it and the fault.
// EPL-3  What is kept is what the environment itself shows and pays, before wrappers, and the action before it is
//        clipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/datagen/generators/trajectories/actor.h"
#include "apps/datagen/generators/trajectories/mixture.h"
#include "apps/rl/config/env_setup.h"
#include "apps/rl/training/checkpoint.h"

namespace datagen {

struct EpisodeTask {
  std::uint64_t sample = 0;       // its number
  std::uint64_t env_seed = 0;
  std::uint64_t action_seed = 0;  // of the draws of actions
};

struct Episode {
  std::vector<std::byte> obs, action;  // a row a step
  std::vector<std::byte> final_obs;    // one row
  std::vector<double> reward;
  std::vector<std::uint8_t> terminated, truncated;
  std::vector<float> log_prob;  // NaN: nobody said it

  [[nodiscard]] std::size_t steps() const { return reward.size(); }
};

struct PlayerSettings {
  rl::EnvSetup env;
  std::size_t together = 32;
  double epsilon = 0.1;
  troupe::kernels::Isa isa = troupe::kernels::Isa::kReference;
  const rl::Policy* policy = nullptr;  // of the behaviours that need one
  const rl::Policy* medium = nullptr;  // of kMedium
};

class EpisodePlayer {
 public:
  static constexpr int kMostFaults = 10;

  /// What MadeEnv::make says of it; InvalidArgumentError when a policy does not fit the environment.
  static troupe::Result<std::unique_ptr<EpisodePlayer>> make(const PlayerSettings& settings);

  /// As many at once as `together` says. Throws what the environment throws.
  [[nodiscard]] std::vector<Episode> play(std::span<const EpisodeTask> tasks, Behaviour behaviour);

  /// Of the environment without wrappers.
  [[nodiscard]] const rl::EnvSpecs& specs() const { return made_.innermost().specs(); }
  [[nodiscard]] std::size_t together() const { return made_.innermost().size(); }

 private:
  EpisodePlayer(const PlayerSettings& settings, rl::MadeEnv made);

  void play_some(std::span<const EpisodeTask> tasks, Behaviour behaviour, std::span<Episode> episodes,
                 std::vector<std::size_t>& broken, std::string& why);
  void act(Behaviour behaviour);
  void begin_step(std::span<Episode> episodes);
  void end_step(std::span<Episode> episodes);

  PlayerSettings settings_;
  rl::MadeEnv made_;
  std::optional<PolicyActor> policy_, medium_;
  rl::StepBuffers step_;
  rl::OwnedRows actions_, raw_;
  bool wrapped_;  // what the policy sees is not what the environment shows
  std::vector<rl::Generator> draws_;
  std::vector<float> log_prob_;
  std::vector<std::uint8_t> playing_;  // of each environment of the batch: its episode has not ended
};

}  // namespace datagen

// A template: an environment of your own, under all algorithms and verbs of `rl`.
//
//   own_env train --algo ppo --env Corridor-v0 --env-kwargs '{"cells": 20}'
//   own_env evaluate rl-out/policy.bin
#include <span>

#include <troupe/troupe.h>

#include "apps/rl/envs/batch_of.h"
#include "apps/rl/program/program.h"
#include "apps/rl/training/callbacks.h"

namespace {

/// One environment: a corridor whose right end is the goal. Every step costs 1.
class Corridor {
 public:
  explicit Corridor(std::int64_t cells) : cells_(cells) {}

  /// Begins the stream of random numbers that all episodes to come draw from.
  void seed(std::uint64_t seed) { random_ = rl::Generator(seed); }
  /// Begins an episode.
  void begin() { at_ = static_cast<std::int64_t>(random_.integers(static_cast<std::uint32_t>(cells_ / 2))); }
  /// Throws for an action that is none; nothing has changed then.
  void check(rl::ConstRows actions, std::size_t row) const {
    rl::check_choice(actions.as<std::int64_t>()[row], 2, row, "Corridor-v0");
  }
  /// The action is a checked one. What is thrown here costs the episode, not the run.
  rl::StepOutcome step(rl::ConstRows actions, std::size_t row) {
    at_ = std::max<std::int64_t>(at_ + (actions.as<std::int64_t>()[row] == 1 ? 1 : -1), 0);
    return {.reward = -1, .terminated = at_ >= cells_ - 1};
  }
  /// Writes one element of the observation space.
  void observe(rl::Rows row) const { row.as<float>()[0] = static_cast<float>(at_) / static_cast<float>(cells_); }

 private:
  std::int64_t cells_, at_ = 0;
  rl::Generator random_{0};
};

/// Many of them. `options.kwargs` is what --env-kwargs says; refuse what you do not know.
troupe::Result<std::unique_ptr<rl::BatchEnv>> make_corridor(std::string_view, const rl::BatchEnvOptions& options) {
  std::int64_t cells = 10;
  for (const auto& [name, value] : options.kwargs) {
    if (name != "cells" || !value.is_int64() || value.as_int64() < 2 || value.as_int64() > 1000)
      return troupe::InvalidArgumentError("Corridor-v0 takes cells, from 2 to 1000");
    cells = value.as_int64();
  }
  return rl::batch_of(Corridor(cells),
                      {.id = "Corridor-v0",
                       .observation_space = rl::Box{.shape = {1}, .low = {0}, .high = {1}},
                       .action_space = rl::Discrete{.n = 2},
                       .max_episode_steps = 10 * static_cast<int>(cells),   // truncates, and training bootstraps
                       .reward_threshold = -0.9 * static_cast<double>(cells)},
                      options);
}

/// After every round of training, in the driver: true ends the run.
bool will_not_learn(const rl::TrainingLog& log) { return log.steps >= 100'000 && log.mean_return() < -500; }

int driver(std::span<char* const> arguments) { return rl::run_program(rl::Program::kRl, arguments); }

}  // namespace

int main(int argc, char** argv) {
  rl::register_env("Corridor-v0", &make_corridor).value();  // here, so that worker processes have it too
  rl::register_callback(&will_not_learn);
  return troupe::run(argc, argv, &driver);
}

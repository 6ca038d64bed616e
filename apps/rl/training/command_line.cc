#include "apps/rl/training/command_line.h"

#include <CLI/CLI.hpp>

namespace rl {
namespace {

void add_training_flags(CLI::App& app, TrainCommand& train) {
  app.add_option("--seed", train.seed, "Seed of environments, networks and exploration (default 1)");
  app.add_option("--num-workers", train.num_workers, "Rollout actors (default 2)")->check(CLI::Range(1, 1024));
  app.add_option("--num-envs", train.num_envs, "Environments of each rollout actor (default 16)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--horizon", train.horizon, "Steps of each environment between updates (default 64)")
      ->check(CLI::Range(1, 65536));
  app.add_option("--total-steps,--steps", train.total_steps,
                 "Environment steps at most, rounded up to whole rollouts (default 500000)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 52));
  app.add_flag("--keep-going", train.keep_going, "Train for all steps, also after the task is solved");
  app.add_option("--out", train.out, "Folder for picture, result, policy and checkpoint")->capture_default_str();
  app.add_option("--json", train.json, "Result file (default OUT/result.json)");
  app.add_option("--checkpoint", train.checkpoint, "Checkpoint file (default OUT/checkpoint.bin)");
  app.add_option("--resume", train.resume, "Go on from this checkpoint; its settings hold unless given anew");
}

}  // namespace

PpoConfig TrainCommand::over(PpoConfig base) const {
  base.seed = seed.value_or(base.seed);
  base.num_workers = num_workers.value_or(base.num_workers);
  base.num_envs = num_envs.value_or(base.num_envs);
  base.horizon = horizon.value_or(base.horizon);
  base.total_steps = total_steps.value_or(base.total_steps);
  if (keep_going) base.stop_when_solved = false;
  return base;
}

Command parse_command_line(std::span<char* const> arguments) {
  TrainCommand train;
  EvaluateCommand evaluation;
  CLI::App app(
      "Learns CartPole by PPO: rollout actors, a learner actor, zero-copy batches. Stops when the mean return of the\n"
      "last 100 episodes reaches 475. Ctrl-C leaves a checkpoint for --resume.",
      "ppo");
  add_training_flags(app, train);
  CLI::App* evaluate = app.add_subcommand("evaluate", "Plays a saved policy (or checkpoint) without exploration");
  evaluate->add_option("policy", evaluation.policy, "Policy or checkpoint file")->required();
  evaluate->add_option("--episodes", evaluation.options.episodes, "Episodes to play")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  evaluate->add_option("--seed", evaluation.options.seed, "Seed of the first episode")->capture_default_str();
  evaluate->add_option("--json", evaluation.json, "Result file");
  app.footer(
      "Exit codes: 0 solved (or played), 1 failed, 2 wrong usage, 3 not solved within the steps, 130 interrupted. "
      "--troupe-help lists the runtime's own flags.");
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) { return ExitNow{app.exit(error) == 0 ? 0 : 2}; }
  if (evaluate->parsed()) return evaluation;
  train.config = train.over({});
  if (train.json.empty()) train.json = train.out / "result.json";
  if (train.checkpoint.empty()) train.checkpoint = train.out / "checkpoint.bin";
  return train;
}

}  // namespace rl

#include "apps/rl/program/program.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <numeric>
#include <string_view>
#include <variant>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/common/progress.h"
#include "apps/rl/config/presets.h"
#include "apps/rl/program/seeds.h"
#include "apps/rl/program/train.h"
#include "apps/rl/training/checkpoint.h"
#include "apps/rl/training/collect.h"
#include "apps/rl/training/result_json.h"

namespace rl {
namespace {

int play(const EvaluateCommand& command) {
  try {
    const Policy policy = load_policy(command.policy).value();
    check_programs(policy.env).value();
    const Evaluation evaluation = evaluate(policy, command.options).value();
    fmt::print("{}: mean return {:.1f} ± {:.1f} over {} episodes\n", policy.env.id, evaluation.mean,
               evaluation.deviation, evaluation.returns.size());
    if (!command.json.empty()) apps::write_file(command.json, evaluation_json(policy, evaluation)).value();
    return 0;
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

int gather_demonstrations(const CollectCommand& command) {
  try {
    apps::check_writable(command.out).value();  // before minutes of work, not after them
    const Policy policy = load_policy(command.policy).value();
    check_programs(policy.env).value();
    apps::ProgressReporter progress(stderr, ::isatty(STDERR_FILENO) != 0);
    const auto started = std::chrono::steady_clock::now();
    const auto show = [&](std::size_t done, double) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
      const auto line = [&](int) { return fmt::format("{} of {} episodes", done, command.episodes); };
      progress.update(seconds.count(), line, done == command.episodes);
    };
    const Demonstrations all =
        collect(policy, {.episodes = command.episodes, .seed = command.seed, .on_episode = show}).value();
    save_demonstrations(command.out, all).value();
    const std::vector<double> returns = returns_of(all);
    const double mean = std::accumulate(returns.begin(), returns.end(), 0.0) / static_cast<double>(returns.size());
    fmt::print("{}: {} episodes, {} steps, mean return {:.1f}\ndemonstrations {}\n", policy.env.id, returns.size(),
               all.steps.rows(), mean, command.out.string());
    return 0;
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

int list() {
  const auto print = [](const char* what, const std::vector<std::string>& names) {
    fmt::print("{}\n", what);
    for (const std::string& name : names) fmt::print("  {}\n", name);
  };
  print("algorithms", algorithm_names());
  print("environments", registered_envs());
  print("prefixes of environments, as in gym:LunarLander-v3", registered_prefixes());
  print("presets", preset_names());
  return 0;
}

}  // namespace

troupe::RunOptions run_options(Program program, std::span<char* const> arguments) {
  const auto names = [&](std::string_view verb) {
    return std::ranges::any_of(arguments, [&](const char* argument) { return argument == verb; });
  };
  troupe::RunOptions options;
  if (program == Program::kRl ? names("train") : !names("evaluate")) options.shutdown_grace = kGrace;
  return options;
}

int run_program(Program program, std::span<char* const> arguments, const MoreVerbs& more) {
  const Command command = parse_command_line(program, arguments);
  if (const auto* exit_now = std::get_if<ExitNow>(&command)) return exit_now->code;
  if (const auto* evaluation = std::get_if<EvaluateCommand>(&command)) return play(*evaluation);
  if (const auto* recording = std::get_if<RecordCommand>(&command)) {
    if (more.record != nullptr) return more.record(*recording);
    fmt::print(stderr, "this program makes no pictures: 'rl record' does\n");
    return 2;
  }
  if (const auto* collecting = std::get_if<CollectCommand>(&command)) return gather_demonstrations(*collecting);
  if (std::holds_alternative<ListCommand>(command)) return list();
  const auto& training = std::get<TrainCommand>(command);
  return training.seeds > 0 ? train_seeds(training) : train(training);
}

}  // namespace rl

#include "apps/rl/program/program.h"

#include <cstdio>
#include <variant>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/rl/program/train.h"
#include "apps/rl/training/checkpoint.h"
#include "apps/rl/training/result_json.h"

namespace rl {
namespace {

int play(const EvaluateCommand& command) {
  try {
    const Policy policy = load_policy(command.policy).value();
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

int list() {
  RunConfig config;
  fmt::print("algorithms\n");
  for (const Setting& setting : settings_of(config)) {
    if (setting.name != "algo") continue;
    for (const std::string& name : setting.choices) fmt::print("  {}\n", name);
  }
  fmt::print("environments\n");
  for (const std::string& id : registered_envs()) fmt::print("  {}\n", id);
  return 0;
}

}  // namespace

int run_program(Program program, std::span<char* const> arguments) {
  const Command command = parse_command_line(program, arguments);
  if (const auto* exit_now = std::get_if<ExitNow>(&command)) return exit_now->code;
  if (const auto* evaluation = std::get_if<EvaluateCommand>(&command)) return play(*evaluation);
  if (std::holds_alternative<ListCommand>(command)) return list();
  return train(std::get<TrainCommand>(command));
}

}  // namespace rl

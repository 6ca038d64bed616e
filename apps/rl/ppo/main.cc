// ppo: learns CartPole on the runtime, and plays what it has learned. See --help.
#include <cstdio>
#include <span>
#include <variant>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/rl/training/checkpoint.h"
#include "apps/rl/training/command_line.h"
#include "apps/rl/training/evaluate.h"
#include "apps/rl/ppo/train.h"
#include "apps/rl/training/result_json.h"

namespace {

int play(const rl::EvaluateCommand& command) {
  try {
    const rl::Policy policy = rl::load_policy(command.policy).value();
    const rl::Evaluation evaluation = rl::evaluate(policy, command.options).value();
    fmt::print("{}: mean return {:.1f} ± {:.1f} over {} episodes\n", policy.env_id, evaluation.mean,
               evaluation.deviation, evaluation.returns.size());
    if (!command.json.empty()) apps::write_file(command.json, rl::evaluation_json(policy, evaluation)).value();
    return 0;
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "ppo: {}\n", error.what());
    return 1;
  }
}

int driver(std::span<char* const> arguments) {
  const rl::Command command = rl::parse_command_line(arguments);
  if (const auto* exit_now = std::get_if<rl::ExitNow>(&command)) return exit_now->code;
  if (const auto* evaluate = std::get_if<rl::EvaluateCommand>(&command)) return play(*evaluate);
  return rl::train(std::get<rl::TrainCommand>(command));
}

}  // namespace

int main(int argc, char** argv) { return troupe::run(argc, argv, &driver); }

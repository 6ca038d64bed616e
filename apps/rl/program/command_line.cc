#include "apps/rl/program/command_line.h"

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/nearest_name.h"

namespace rl {
namespace {

std::string type_of(const Setting& setting) {
  if (!setting.choices.empty()) return fmt::format("{}", fmt::join(setting.choices, "|"));
  return std::visit(
      []<class T>(T*) -> std::string {
        if constexpr (std::is_same_v<T, double>) return "NUMBER";
        else if constexpr (std::is_same_v<T, std::string>) return "WORD";
        else if constexpr (std::is_same_v<T, std::vector<std::size_t>>) return "N,N,...";
        else return "N";
      },
      setting.value);
}

/// What a flag says goes to the settings and to `given`.
void add_setting(CLI::App& app, const Setting& setting, boost::json::object& given) {
  const auto take = [&given, setting](const boost::json::value& value) {
    if (troupe::Status status = assign(setting, value); !status.ok())
      throw CLI::ValidationError(flag_of(setting), status.error().message());
    given[setting.name] = value_of(setting);
  };
  const std::string flag = flag_of(setting);
  if (std::holds_alternative<bool*>(setting.value)) {
    app.add_flag_callback(flag, [take] { take(true); }, setting.help)->group("Settings");
    app.add_flag_callback("--no-" + flag.substr(2), [take] { take(false); })->group("");
    return;
  }
  const std::string shown = text_of(setting);
  const std::string names = setting.name == "total_steps" ? flag + ",--steps" : flag;
  app.add_option_function<std::string>(
         names,
         [take, setting](const std::string& text) {
           if (troupe::Status status = assign_text(setting, text); !status.ok())
             throw CLI::ValidationError(flag_of(setting), status.error().message());
           take(value_of(setting));
         },
         shown.empty() ? setting.help : fmt::format("{} ({})", setting.help, shown))
      ->type_name(type_of(setting))
      ->group("Settings");
}

struct TrainFlags {
  std::filesystem::path config;
  bool keep_going = false;
};

void add_training_flags(CLI::App& app, TrainCommand& train, TrainFlags& flags) {
  app.add_option("--config", flags.config, "Settings from this YAML file; flags win over it");
  app.add_flag("--keep-going", flags.keep_going, "As --no-stop-when-solved");
  app.add_option("--out", train.out, "Folder for picture, result, policy and checkpoint")->capture_default_str();
  app.add_option("--json", train.json, "Result file (default OUT/result.json)");
  app.add_option("--checkpoint", train.checkpoint, "Checkpoint file (default OUT/checkpoint.bin)");
  app.add_option("--resume", train.resume, "Go on from this checkpoint; its settings hold unless given anew");
  for (const Setting& setting : settings_of(train.config)) add_setting(app, setting, train.given);
}

void add_evaluation_flags(CLI::App& app, EvaluateCommand& evaluation) {
  app.add_option("policy", evaluation.policy, "Policy or checkpoint file")->required();
  app.add_option("--episodes", evaluation.options.episodes, "Episodes to play")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seed", evaluation.options.seed, "Seed of the first episode")->capture_default_str();
  app.add_option("--json", evaluation.json, "Result file");
}

/// "did you mean --horizon?" for each flag that `app` and its chosen verb do not know.
void suggest(const CLI::App& app) {
  std::vector<std::string> known;
  const CLI::App* chosen = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  for (const CLI::Option* option : chosen->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& unknown : app.remaining(true))
    if (unknown.starts_with("--"))
      fmt::print(stderr, "{}: did you mean {}?\n", unknown, apps::nearest_name(unknown, known));
}

/// What --config says, below what the flags said.
troupe::Status read_config(const std::filesystem::path& path, TrainCommand& train) {
  if (path.empty()) return {};
  const auto read = read_yaml(path);
  if (!read.ok()) return read.error_ptr();
  if (troupe::Status status = assign_all(settings_of(train.config), *read); !status.ok())
    return troupe::InvalidArgumentError(path.string() + ": " + status.error().message());
  for (const auto& [name, value] : *read)
    if (!train.given.contains(name)) train.given[name] = value;
  return assign_all(settings_of(train.config), train.given);
}

constexpr const char* kCodes =
    "Exit codes: 0 solved (or trained, where nothing says what solved means; or played), 1 failed, 2 wrong usage, 3 "
    "not solved within the steps, 130 interrupted. --troupe-help lists the runtime's own flags.";

}  // namespace

RunConfig TrainCommand::over(RunConfig base) const {
  assign_all(settings_of(base), given).value();
  return base;
}

Command parse_command_line(Program program, std::span<char* const> arguments) {
  const bool is_ppo = program == Program::kPpo;
  TrainCommand training;
  TrainFlags flags;
  EvaluateCommand evaluation;
  CLI::App app(is_ppo ? "Learns CartPole by PPO: rollout actors, a learner actor, zero-copy batches. Stops when the "
                        "mean return of the\nlast 100 episodes reaches 475. Ctrl-C leaves a checkpoint for --resume."
                      : "Reinforcement learning on the runtime: rollout actors, a learner actor, zero-copy batches.",
               is_ppo ? "ppo" : "rl");
  if (is_ppo) training.out = "ppo-out";
  CLI::App* train = is_ppo ? &app : app.add_subcommand("train", "Trains a policy; Ctrl-C leaves a checkpoint");
  add_training_flags(*train, training, flags);
  CLI::App* evaluate = app.add_subcommand("evaluate", "Plays a saved policy (or checkpoint) without exploration");
  add_evaluation_flags(*evaluate, evaluation);
  CLI::App* list = is_ppo ? nullptr : app.add_subcommand("list", "Algorithms and environments");
  if (!is_ppo) app.require_subcommand(1);
  app.footer(kCodes);
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ExtrasError& error) {
    suggest(app);
    return ExitNow{app.exit(error) == 0 ? 0 : 2};
  } catch (const CLI::ParseError& error) { return ExitNow{app.exit(error) == 0 ? 0 : 2}; }
  if (evaluate->parsed()) return evaluation;
  if (list != nullptr && list->parsed()) return ListCommand{};
  if (flags.keep_going) training.given["stop_when_solved"] = training.config.stop_when_solved = false;
  if (troupe::Status status = read_config(flags.config, training); !status.ok()) {
    fmt::print(stderr, "{}\n", status.error().message());
    return ExitNow{2};
  }
  if (training.json.empty()) training.json = training.out / "result.json";
  if (training.checkpoint.empty()) training.checkpoint = training.out / "checkpoint.bin";
  return training;
}

}  // namespace rl

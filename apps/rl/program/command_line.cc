#include "apps/rl/program/command_line.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/nearest_name.h"
#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/config/presets.h"

namespace rl {
namespace {

std::string type_of(const Setting& setting) {
  if (!setting.choices.empty()) return fmt::format("{}", fmt::join(setting.choices, "|"));
  return std::visit(
      []<class T>(T*) -> std::string {
        if constexpr (std::is_same_v<T, double>) return "NUMBER";
        else if constexpr (std::is_same_v<T, std::optional<double>>) return "NUMBER|auto";
        else if constexpr (std::is_same_v<T, std::string>) return "WORD";
        else if constexpr (std::is_same_v<T, std::vector<std::size_t>>) return "N,N,...";
        else return "N";
      },
      setting.value);
}

/// A name that is a setting of some algorithms, each with its own range, default and words.
struct NamedSetting {
  std::vector<std::string> algorithms;
  std::vector<Setting> settings;  // one an algorithm
};

/// The settings of all algorithms, in the order of the first that has them. They point into its own configurations.
class AllSettings {
 public:
  AllSettings() {
    for (const std::string& name : algorithm_names())
      configs_.push_back(std::make_unique<RunConfig>(defaults_of(name).value()));
    for (const auto& config : configs_) {
      for (Setting& setting : settings_of(*config)) {
        NamedSetting& named = of_name(setting.name);
        named.algorithms.push_back(config->algo);
        named.settings.push_back(std::move(setting));
      }
    }
  }
  [[nodiscard]] const std::vector<std::unique_ptr<NamedSetting>>& named() const { return named_; }

 private:
  NamedSetting& of_name(const std::string& name) {
    const auto at = std::ranges::find_if(named_, [&](const auto& n) { return n->settings[0].name == name; });
    if (at != named_.end()) return **at;
    return *named_.emplace_back(std::make_unique<NamedSetting>());
  }

  std::vector<std::unique_ptr<RunConfig>> configs_;
  std::vector<std::unique_ptr<NamedSetting>> named_;
};

/// "Discount (0.98; dqn, sac: 0.99)".
std::string help_of(const NamedSetting& named) {
  std::string out = named.settings[0].help, defaults;
  for (std::size_t i = 0; i < named.settings.size(); ++i) {
    const std::string text = text_of(named.settings[i]);
    if (text.empty() || (i > 0 && text == text_of(named.settings[0]))) continue;
    defaults += i == 0 ? text : fmt::format("{}{}: {}", defaults.empty() ? "" : "; ", named.algorithms[i], text);
  }
  return defaults.empty() ? out : fmt::format("{} ({})", out, defaults);
}

/// Takes what one of the algorithms would take; which one it has to be is known only when all flags are read.
boost::json::value taken(const NamedSetting& named, const std::string& text) {
  troupe::Status first;
  for (const Setting& setting : named.settings) {
    troupe::Status status = assign_text(setting, text);
    if (status.ok()) return value_of(setting);
    if (first.ok()) first = status;
  }
  throw CLI::ValidationError(flag_of(named.settings[0]), first.error().message());
}

void add_setting(CLI::App& app, const NamedSetting& named, boost::json::object& given) {
  const Setting& setting = named.settings[0];
  const std::string flag = flag_of(setting);
  const std::string group = named.algorithms.size() == algorithm_names().size()
                                ? "Settings"
                                : fmt::format("Settings of {}", fmt::join(named.algorithms, ", "));
  if (std::holds_alternative<bool*>(setting.value)) {
    app.add_flag_callback(flag, [&given, name = setting.name] { given[name] = true; }, help_of(named))->group(group);
    app.add_flag_callback("--no-" + flag.substr(2), [&given, name = setting.name] { given[name] = false; })->group("");
    return;
  }
  const std::string names = setting.name == "total_steps" ? flag + ",--steps" : flag;
  app.add_option_function<std::string>(
         names,
         [&given, &named](const std::string& text) { given[named.settings[0].name] = taken(named, text); },
         help_of(named))
      ->type_name(type_of(setting))
      ->group(group);
}

struct TrainFlags {
  std::filesystem::path config;
  std::string preset;
  bool keep_going = false, out_given = false, stop_deadline_given = false;
  bool no_tensorboard = false, no_replay = false;
};

void add_training_flags(CLI::App& app, const AllSettings& settings, TrainCommand& train, TrainFlags& flags) {
  app.add_option("--preset", flags.preset, "Settings that were found to be good; 'rl list' shows them");
  app.add_option("--config", flags.config, "Settings from this YAML file; flags win over it");
  app.add_flag("--keep-going", flags.keep_going, "As --no-stop-when-solved");
  app.add_option("--out", train.out, "Folder for picture, result, policy and checkpoint")->capture_default_str();
  app.add_option("--json", train.json, "Result file (default OUT/result.json)");
  app.add_option("--checkpoint", train.checkpoint, "Checkpoint file (default OUT/checkpoint.bin)");
  app.add_option("--resume", train.resume, "Go on from this checkpoint; its settings hold unless given anew");
  app.add_flag("--no-tensorboard", flags.no_tensorboard, "Writes no OUT/tensorboard");
  app.add_flag("--no-replay", flags.no_replay,
               "Leaves the replay out of checkpoints: smaller, but a run that goes on from one is another run");
  app.add_option("--max-failures", train.max_failures,
                 "Deaths of what cannot be replaced, as of a learner, after which it goes on from its last checkpoint")
      ->capture_default_str();
  app.add_flag("--end-with-input", train.end_with_input,
               "Ends as by Ctrl-C when standard input, a pipe, ends: for a program that starts this one");
  app.add_option("--seeds", train.seeds, "So many runs, of this seed and those behind it, each in OUT/seed-S")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--parallel", train.parallel, "With --seeds: runs at a time (default: one a CPU)")
      ->check(CLI::Range(1, 10'000));
  app.add_option_function<double>(
         "--stop-deadline", [&train](double seconds) { train.stop_deadline = std::chrono::duration<double>(seconds); },
         "With --seeds: seconds that runs have after Ctrl-C to finish their rounds; then they are killed")
      ->check(CLI::Range(0.0, train.stop_deadline.count()))
      ->default_str(fmt::format("{}", train.stop_deadline.count()));
  for (const auto& named : settings.named()) add_setting(app, *named, train.given);
}

void add_evaluation_flags(CLI::App& app, EvaluateCommand& evaluation) {
  app.add_option("policy", evaluation.policy, "Policy or checkpoint file")->required();
  app.add_option("--episodes", evaluation.options.episodes, "Episodes to play")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seed", evaluation.options.seed, "Seed of the first episode")->capture_default_str();
  app.add_option("--json", evaluation.json, "Result file");
}

void add_recording_flags(CLI::App& app, RecordCommand& recording) {
  app.add_option("policy", recording.policy, "Policy or checkpoint file")->required();
  app.add_option("--out", recording.out, "NAME.gif: a GIF; else a folder of PNG files")->capture_default_str();
  app.add_option("--episodes", recording.episodes, "Episodes to play")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--seed", recording.seed, "Seed of the first episode")->capture_default_str();
  app.add_option("--fps", recording.frames_per_second, "Pictures a second, of a GIF")
      ->check(CLI::Range(1, 50))
      ->capture_default_str();
  app.add_option("--frames", recording.frames_max, "Pictures at most")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
}

void add_collecting_flags(CLI::App& app, CollectCommand& collecting) {
  app.add_option("policy", collecting.policy, "Policy or checkpoint file")->required();
  app.add_option("--out", collecting.out, "File of demonstrations (safetensors)")->capture_default_str();
  app.add_option("--episodes", collecting.episodes, "Episodes to play")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seed", collecting.seed, "Seed of the first episode")->capture_default_str();
}

/// What others have, and this program has not.
std::string refused_by_name(std::string flag) {
  std::ranges::replace(flag, '_', '-');
  if (flag == "--recurrent" || flag == "--lstm" || flag == "--use-lstm") return "there are no recurrent policies yet";
  if (flag == "--multi-agent") return "there are no environments of several agents yet";
  return {};
}

/// "did you mean --horizon?" for each flag that `app` and its chosen verb do not know.
void suggest(const CLI::App& app) {
  std::vector<std::string> known;
  const CLI::App* chosen = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  for (const CLI::Option* option : chosen->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& unknown : app.remaining(true))
    if (const std::string refused = refused_by_name(unknown); !refused.empty())
      fmt::print(stderr, "{}: {}\n", unknown, refused);
    else if (unknown.starts_with("--"))
      fmt::print(stderr, "{}: did you mean {}?\n", unknown, apps::nearest_name(unknown, known));
}

/// Below what was given before.
void add_below(const boost::json::object& values, boost::json::object& given) {
  for (const auto& [name, value] : values)
    if (!given.contains(name)) given[name] = value;
}

/// RCL-3.
troupe::Status check_named(const boost::json::object& typed, EnvSetup& env) {
  env.working_folder = typed_modules(env, typed);
  if (typed.contains("python")) return {};
  const troupe::Status trusted = check_programs(env);
  if (trusted.ok() || trusted.error().code() != troupe::ErrorCode::kInvalidArgument) return trusted;
  return troupe::InvalidArgumentError(trusted.error().message() + "; or name one with --python");
}

/// Files of old have some settings that mean nothing to their algorithm.
void forget_meaningless(boost::json::object& kept) {
  const boost::json::value* algo = kept.if_contains("algo");
  if (algo == nullptr || !algo->is_string()) return;
  const auto known = algorithm_config(std::string(algo->as_string()));
  if (!known.ok()) return;
  for (const std::string& name : (*known)->without) kept.erase(name);
}

/// What is said of copies means nothing where none is played. A preset may say it, and a flag take the copies away.
troupe::Status check_copies(const boost::json::object& flags, const RunConfig& config) {
  if (config.evaluation.every > 0) return {};
  for (const char* name : {"stop_at_gate", "evaluation_threshold", "evaluation_episodes"})
    if (flags.contains(name))
      return troupe::InvalidArgumentError(fmt::format("'{}' means nothing while no copy is played: evaluate_every is 0",
                                                      name));
  return {};
}

/// Of several seeds: those that an earlier --seeds has begun go on in its folder.
troupe::Status complete_seeds(bool out_given, TrainCommand& train) {
  if (!train.checkpoint.empty())
    return troupe::InvalidArgumentError("with --seeds each seed has its checkpoint in OUT/seed-S: no --checkpoint");
  if (train.parallel == 0) train.parallel = std::max(1u, std::thread::hardware_concurrency());
  if (train.resume.empty()) return {};
  if (out_given && train.out != train.resume)
    return troupe::InvalidArgumentError(fmt::format("with --seeds, a run goes on in its folder, {}: not in {}",
                                                    train.resume.string(), train.out.string()));
  const std::filesystem::path kept = train.resume / "config.yaml";
  if (!std::filesystem::exists(kept))
    return troupe::InvalidArgumentError(fmt::format("with --seeds, --resume names the folder of an earlier --seeds: "
                                                    "there is no {}", kept.string()));
  auto read = read_yaml(kept);
  if (!read.ok()) return read.error_ptr();
  forget_meaningless(*read);
  add_below(*read, train.given);
  const std::filesystem::path changed = train.resume / "changes.yaml";
  if (std::filesystem::exists(changed)) {  // by an earlier --resume, which some seeds may not have heard of
    const auto before = read_yaml(changed);
    if (!before.ok()) return before.error_ptr();
    add_below(*before, train.changes);
  }
  train.out = train.resume;
  return {};
}

/// The preset and --config, below the flags, and all of it checked.
troupe::Status complete(const TrainFlags& flags, TrainCommand& train) {
  const boost::json::object typed = train.typed = train.given;
  if (!flags.config.empty()) {
    const auto read = read_yaml(flags.config);
    if (!read.ok()) return read.error_ptr();
    if (const auto alone = config_from(*read); !alone.ok())
      return troupe::InvalidArgumentError(flags.config.string() + ": " + alone.error().message());
    add_below(*read, train.given);
  }
  if (!flags.preset.empty()) {
    const auto read = preset(flags.preset);
    if (!read.ok()) return read.error_ptr();
    add_below(*read, train.given);
    add_below(*read, train.typed);  // a preset is the program's own
  }
  train.changes = train.given;
  if (train.seeds > 0) {
    if (troupe::Status status = complete_seeds(flags.out_given, train); !status.ok()) return status;
  } else if (train.parallel != 0 || flags.stop_deadline_given) {
    return troupe::InvalidArgumentError(fmt::format("{} is for --seeds", train.parallel != 0 ? "--parallel"
                                                                                             : "--stop-deadline"));
  }
  if (!train.resume.empty() && train.seeds == 0) return {};  // the checkpoint says which algorithm it is
  auto config = config_from(train.given);
  if (!config.ok()) return config.error_ptr();
  train.config = std::move(*config);
  if (troupe::Status copies = check_copies(typed, train.config); !copies.ok()) return copies;
  if (troupe::Status named = check_named(train.typed, train.config.env); !named.ok()) return named;
  if (train.seeds > 0 && train.config.seed > std::numeric_limits<std::uint64_t>::max() - (train.seeds - 1))
    return troupe::InvalidArgumentError(fmt::format("there are no {} seeds from {} on", train.seeds,
                                                    train.config.seed));
  return {};
}

constexpr const char* kCodes =
    "Exit codes: 0 solved (or trained, where nothing says what solved means; or played), 1 failed, 2 wrong usage, 3 "
    "not solved within the steps, 130 interrupted. --troupe-help lists the runtime's own flags.";

}  // namespace

troupe::Result<RunConfig> TrainCommand::over(RunConfig base) const {
  if (const boost::json::value* algo = given.if_contains("algo"); algo != nullptr && algo->as_string() != base.algo)
    return troupe::InvalidArgumentError(fmt::format("the checkpoint is one of {}, not of {}", base.algo,
                                                    std::string_view(algo->as_string())));
  if (troupe::Status status = assign_all(settings_of(base), given); !status.ok()) return status.error_ptr();
  if (troupe::Status device = check_device(base); !device.ok()) return device.error_ptr();
  if (troupe::Status copies = check_copies(typed, base); !copies.ok()) return copies.error_ptr();
  if (troupe::Status named = check_named(typed, base.env); !named.ok()) return named.error_ptr();
  return base;
}

Command parse_command_line(Program program, std::span<char* const> arguments) {
  const bool is_ppo = program == Program::kPpo;
  const AllSettings settings;
  TrainCommand training;
  TrainFlags flags;
  EvaluateCommand evaluation;
  CLI::App app(is_ppo ? "Learns CartPole by PPO: rollout actors, a learner actor, zero-copy batches. Stops when the "
                        "mean return of the\nlast 100 episodes reaches 475. Ctrl-C leaves a checkpoint for --resume."
                      : "Reinforcement learning on the runtime: rollout actors, a learner actor, zero-copy batches.",
               is_ppo ? "ppo" : "rl");
  if (is_ppo) training.out = "ppo-out";
  CLI::App* train = is_ppo ? &app : app.add_subcommand("train", "Trains a policy; Ctrl-C leaves a checkpoint");
  add_training_flags(*train, settings, training, flags);
  CLI::App* evaluate = app.add_subcommand("evaluate", "Plays a saved policy (or checkpoint) without exploration");
  add_evaluation_flags(*evaluate, evaluation);
  RecordCommand recording;
  CLI::App* record = is_ppo ? nullptr : app.add_subcommand("record", "Plays a saved policy and keeps the pictures");
  if (record != nullptr) add_recording_flags(*record, recording);
  CollectCommand collecting;
  CLI::App* collect =
      is_ppo ? nullptr : app.add_subcommand("collect", "Plays a saved policy and keeps demonstrations for 'bc'");
  if (collect != nullptr) add_collecting_flags(*collect, collecting);
  CLI::App* list = is_ppo ? nullptr : app.add_subcommand("list", "Algorithms, environments and presets");
  if (!is_ppo) app.require_subcommand(1);
  app.footer(kCodes);
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ExtrasError& error) {
    suggest(app);
    return ExitNow{app.exit(error) == 0 ? 0 : 2};
  } catch (const CLI::ParseError& error) { return ExitNow{app.exit(error) == 0 ? 0 : 2}; }
  if (evaluate->parsed()) return evaluation;
  if (record != nullptr && record->parsed()) return recording;
  if (collect != nullptr && collect->parsed()) return collecting;
  if (list != nullptr && list->parsed()) return ListCommand{};
  flags.out_given = train->count("--out") > 0;
  flags.stop_deadline_given = train->count("--stop-deadline") > 0;
  if (flags.keep_going) training.given["stop_when_solved"] = false;
  training.verb.assign(arguments.begin(), arguments.begin() + (is_ppo ? 1 : 2));
  training.tensorboard = !flags.no_tensorboard, training.keep_replay = !flags.no_replay;
  if (troupe::Status status = complete(flags, training); !status.ok()) {
    fmt::print(stderr, "{}\n", status.error().message());
    return ExitNow{2};
  }
  if (training.json.empty()) training.json = training.out / "result.json";
  if (training.checkpoint.empty()) training.checkpoint = training.out / "checkpoint.bin";
  return training;
}

}  // namespace rl

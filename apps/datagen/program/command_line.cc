#include "apps/datagen/program/command_line.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/nearest_name.h"
#include "apps/common/settings/setting.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/program/exit_codes.h"

namespace datagen {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// What is on the command line besides settings.
struct Flags {
  std::optional<std::string> generator, format, isa, name;
  std::optional<std::uint64_t> samples, samples_per_shard, seed;
  std::filesystem::path config;
};

constexpr std::array kOurNames{"generator", "format", "isa",     "name",    "samples", "samples_per_shard",
                               "seed",      "config", "out",     "help",    "workers", "shard_timeout",
                               "retries",   "commit_timeout",    "open_bytes"};

std::string type_of(const apps::Setting& setting) {
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

/// The verb that was meant, where the first word is none.
std::optional<std::string> nearest_verb(const CLI::App& app, std::span<char* const> arguments) {
  if (arguments.size() < 2 || arguments[1][0] == '-') return std::nullopt;
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({})) verbs.push_back(verb->get_name());
  if (std::ranges::find(verbs, arguments[1]) != verbs.end()) return std::nullopt;
  return apps::nearest_name(arguments[1], verbs);
}

/// A setting as a user names it: "level", or "jsonl_level" where the name alone would be of several.
struct NamedSetting {
  apps::Setting setting;
  std::string shown;
  std::string group;
  json::object* given;  // where its value goes
};

/// The settings of the generator and the format that were chosen.
class ChosenSettings {
 public:
  /// Of what `generator` and `format` name; an unknown name has none, and is found out later.
  ChosenSettings(const std::optional<std::string>& generator, const std::optional<std::string>& format) {
    if (generator)
      if (const auto kind = find_generator(*generator); kind.ok()) generator_ = kind->options();
    if (format)
      if (const auto kind = find_format(*format); kind.ok()) format_ = kind->options();
    std::vector<apps::Setting> of_generator, of_format;
    if (generator_) of_generator = generator_->settings();
    if (format_) of_format = format_->settings();
    const auto ours = [](const std::string& name) { return std::ranges::find(kOurNames, name) != kOurNames.end(); };
    const auto has = [](const std::vector<apps::Setting>& list, const std::string& name) {
      return std::ranges::find(list, name, &apps::Setting::name) != list.end();
    };
    const auto prefixed = [](std::string owner, const std::string& name) {
      std::ranges::replace(owner, '-', '_');
      return owner + "_" + name;
    };
    for (apps::Setting& s : of_generator) {
      const std::string shown = ours(s.name) ? prefixed(*generator, s.name) : s.name;
      named_.push_back({std::move(s), shown, "Settings of the generator " + *generator, &generator_given_});
    }
    for (apps::Setting& s : of_format) {
      const bool taken = ours(s.name) || has(of_generator_names(named_), s.name);
      const std::string shown = taken ? prefixed(*format, s.name) : s.name;
      named_.push_back({std::move(s), shown, "Settings of the format " + *format, &format_given_});
    }
  }
  ChosenSettings(const ChosenSettings&) = delete;
  ChosenSettings& operator=(const ChosenSettings&) = delete;

  [[nodiscard]] const std::vector<NamedSetting>& named() const { return named_; }
  [[nodiscard]] const json::object& generator_given() const { return generator_given_; }
  [[nodiscard]] const json::object& format_given() const { return format_given_; }

 private:
  static std::vector<apps::Setting> of_generator_names(const std::vector<NamedSetting>& named) {
    std::vector<apps::Setting> out;
    for (const NamedSetting& n : named)
      if (n.group.starts_with("Settings of the generator")) out.push_back(n.setting);
    return out;
  }

  std::unique_ptr<GeneratorOptions> generator_;
  std::unique_ptr<FormatOptions> format_;
  std::vector<NamedSetting> named_;
  json::object generator_given_, format_given_;
};

/// The value of a flag, wherever it stands: which settings there are depends on it.
std::optional<std::string> look_ahead(std::span<char* const> arguments, std::string_view flag) {
  std::optional<std::string> out;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view word(arguments[i]);
    if (word == flag && i + 1 < arguments.size()) out = arguments[i + 1];
    else if (word.starts_with(std::string(flag) + "=")) out = word.substr(flag.size() + 1);
  }
  return out;
}

void add_setting(CLI::App& app, const NamedSetting& named) {
  const apps::Setting& setting = named.setting;
  std::string flag = "--" + named.shown;
  std::ranges::replace(flag, '_', '-');
  const std::string help = help_of(setting);
  json::object& given = *named.given;
  if (std::holds_alternative<bool*>(setting.value)) {
    app.add_flag_callback(flag, [&given, name = setting.name] { given[name] = true; }, help)->group(named.group);
    app.add_flag_callback("--no-" + flag.substr(2), [&given, name = setting.name] { given[name] = false; })->group("");
    return;
  }
  app.add_option_function<std::string>(
         flag,
         [&given, &setting, flag](const std::string& word) {
           if (troupe::Status status = apps::assign_text(setting, word); !status.ok())
             throw CLI::ValidationError(flag, status.error().message());
           given[setting.name] = apps::value_of(setting);
         },
         help)
      ->type_name(type_of(setting))
      ->group(named.group);
}

/// CLI11's own numbers wrap around below zero and stop at the greatest: another data set than was asked for.
template <class To>
CLI::Option* add_number(CLI::App& app, const std::string& flag, To& to, std::uint64_t least, std::uint64_t most,
                        const std::string& help) {
  const auto take = [&to, flag, least, most](const std::string& word) {
    std::uint64_t number = 0;
    const auto [end, failed] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.empty() || failed != std::errc() || end != word.data() + word.size() || number < least || number > most)
      throw CLI::ValidationError(flag, fmt::format("a whole number from {} to {}, not {}", least, most, word));
    to = number;
  };
  return app.add_option_function<std::string>(flag, take, help)->type_name("N");
}

CLI::Option* add_folder(CLI::App& app, const std::string& flag, std::filesystem::path& to) {
  const auto is_named = [](const std::string& name) {
    return name.empty() ? "a folder without a name" : std::string();
  };
  return app.add_option(flag, to, "Folder of the data set")->required()->check(is_named);
}

void add_job_flags(CLI::App& app, Flags& flags, const ChosenSettings& settings) {
  app.add_option("--generator", flags.generator, "What is generated; 'datagen list' shows them");
  app.add_option("--format", flags.format, "How it is written (jsonl)");
  add_number(app, "--samples", flags.samples, 1, kMost, "Samples of the data set");
  add_number(app, "--samples-per-shard", flags.samples_per_shard, 1, kMost,
             "Samples in each file (the generator's own number)");
  add_number(app, "--seed", flags.seed, 0, kMost, "Another seed, another data set (0)");
  app.add_option("--isa", flags.isa,
                 "Instruction set that decides the last bits: auto, avx512, avx2, or portable: the same on every "
                 "machine with FMA (auto)");
  app.add_option("--config", flags.config, "Settings from this YAML file; flags win over it");
  for (const NamedSetting& named : settings.named()) add_setting(app, named);
}

void add_seconds(CLI::App& app, const std::string& name, troupe::Duration& to, const std::string& help) {
  app.add_option_function<double>(
      name,
      [&to, name](double seconds) {
        if (!(seconds >= 0.001 && seconds <= 1e9))  // nor what is no number
          throw CLI::ValidationError(name, fmt::format("seconds from 0.001 to 1e9, not {}", seconds));
        to = std::chrono::duration_cast<troupe::Duration>(std::chrono::duration<double>(seconds));
      },
      help);
}

void add_run_flags(CLI::App& app, RunSettings& settings) {
  add_number(app, "--workers", settings.workers, 1, 100'000, "Shards that are made at a time (one a CPU)");
  add_number(app, "--retries", settings.retries, 0, 1000,
             "Attempts at a shard beside the first one, and as many for want of memory")
      ->default_str(std::to_string(settings.retries));
  add_seconds(app, "--shard-timeout", settings.shard_timeout,
              "Seconds after which a shard counts as hanging, and is tried again (none)");
  add_seconds(app, "--commit-timeout", settings.commit_timeout,
              "Seconds after which a coordinator that does not answer is replaced (60)");
  add_number(app, "--open-bytes", settings.open_bytes, 1, std::uint64_t{1} << 62,
             "Bytes of shards under way at a time")
      ->default_str(std::to_string(settings.open_bytes));
}

/// The file, below the flags.
troupe::Status merge_file(const json::object& file, const ChosenSettings& settings, Flags& flags) {
  json::object generator_below, format_below;
  for (const auto& [key, value] : file) {
    const std::string name(key);
    const auto word = [&](std::optional<std::string>& to) -> troupe::Status {
      if (!value.is_string()) return troupe::InvalidArgumentError(name + " is a word");
      if (!to) to = std::string(value.as_string());
      return {};
    };
    const auto number = [&](std::optional<std::uint64_t>& to) -> troupe::Status {
      boost::system::error_code failed;
      const auto read = value.is_number() ? value.to_number<std::uint64_t>(failed) : 0;
      if (!value.is_number() || failed) return troupe::InvalidArgumentError(name + " is a whole number from 0 on");
      if (!to) to = read;
      return {};
    };
    troupe::Status status;
    if (name == "generator") status = word(flags.generator);
    else if (name == "format") status = word(flags.format);
    else if (name == "isa") status = word(flags.isa);
    else if (name == "name") status = word(flags.name);
    else if (name == "samples") status = number(flags.samples);
    else if (name == "samples_per_shard") status = number(flags.samples_per_shard);
    else if (name == "seed") status = number(flags.seed);
    else {
      const auto at = std::ranges::find(settings.named(), name, &NamedSetting::shown);
      if (at == settings.named().end()) {
        std::vector<std::string> names(kOurNames.begin(), kOurNames.begin() + 7);
        for (const NamedSetting& named : settings.named()) names.push_back(named.shown);
        return troupe::InvalidArgumentError(fmt::format("there is no setting {}: did you mean {}?", name,
                                                        apps::nearest_name(name, names)));
      }
      if (!at->given->contains(at->setting.name)) (*at->given)[at->setting.name] = value;
      status = apps::assign(at->setting, value);
    }
    if (!status.ok()) return status;
  }
  return {};
}

troupe::Result<JobChoices> choices_of(Flags& flags, const ChosenSettings& settings, const json::object& file) {
  if (troupe::Status status = merge_file(file, settings, flags); !status.ok())
    return troupe::InvalidArgumentError(flags.config.string() + ": " + status.error().message());
  if (!flags.generator)
    return troupe::InvalidArgumentError("--generator is missing: 'datagen list' shows them");
  if (!flags.samples) return troupe::InvalidArgumentError("--samples is missing: how many samples the data set has");
  if (flags.samples_per_shard && *flags.samples_per_shard == 0)
    return troupe::InvalidArgumentError("shards of no samples: give --samples-per-shard a number above 0");
  return JobChoices{.generator = *flags.generator,
                    .format = flags.format.value_or("jsonl"),
                    .generator_settings = settings.generator_given(),
                    .format_settings = settings.format_given(),
                    .samples = *flags.samples,
                    .samples_per_shard = flags.samples_per_shard.value_or(0),
                    .seed = flags.seed.value_or(0),
                    .isa = flags.isa.value_or("auto")};
}

/// "did you mean --horizon?" for each flag that the chosen verb does not know.
void suggest(const CLI::App& app) {
  std::vector<std::string> known;
  const CLI::App* chosen = app.get_subcommands().empty() ? &app : app.get_subcommands().front();
  for (const CLI::Option* option : chosen->get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& unknown : app.remaining(true))
    if (unknown.starts_with("--"))
      fmt::print(stderr, "{}: did you mean {}?\n", unknown, apps::nearest_name(unknown, known));
}

constexpr const char* kCodes =
    "Settings of a generator or a format are flags too: 'datagen run --generator NAME --format NAME --help' lists "
    "them.\nExit codes: 0 done, 1 failed (what is committed stays: 'datagen resume DIR' goes on), 2 wrong usage, 130 "
    "interrupted\n(go on in the same way). --troupe-help lists the runtime's own flags.";

int wrong_usage(const troupe::Error& error) {
  fmt::print(stderr, "{}\n", error.message());
  return kExitUsage;
}

}  // namespace

std::string help_of(const apps::Setting& setting) {
  std::string value = apps::text_of(setting);
  if (value.find('\n') != std::string::npos) value = json::serialize(json::value(value));
  return value.empty() ? setting.help : fmt::format("{} ({})", setting.help, value);
}

Command parse_command_line(std::span<char* const> arguments) {
  json::object file;
  if (const auto path = look_ahead(arguments, "--config")) {
    auto read = apps::read_yaml(*path);
    if (!read.ok()) return ExitNow{wrong_usage(read.error())};
    file = *std::move(read);
  }
  const auto chosen = [&](const char* flag, const char* key, const char* otherwise) {
    std::optional<std::string> out = look_ahead(arguments, flag);
    if (!out && file.contains(key) && file.at(key).is_string()) out = std::string(file.at(key).as_string());
    if (!out && otherwise != nullptr) out = otherwise;
    return out;
  };
  const ChosenSettings settings(chosen("--generator", "generator", nullptr), chosen("--format", "format", "jsonl"));
  Flags flags;
  RunCommand running;
  ResumeCommand resuming;
  VerifyCommand verifying;
  ShowCommand showing;
  CLI::App app("Makes data sets that are exactly right, whatever dies meanwhile.", "datagen");
  CLI::App* run = app.add_subcommand("run", "Makes a data set; goes on with one that was begun");
  add_job_flags(*run, flags, settings);
  add_folder(*run, "--out", running.out);
  run->add_option("--name", flags.name, "Of the data set (its folder's)");
  add_run_flags(*run, running.settings);
  CLI::App* plan = app.add_subcommand("plan", "Shows what 'run' would make, and makes nothing");
  add_job_flags(*plan, flags, settings);
  CLI::App* resume = app.add_subcommand("resume", "Goes on with a data set that was begun, with its own settings");
  add_folder(*resume, "dir", resuming.out);
  add_run_flags(*resume, resuming.settings);
  CLI::App* verify = app.add_subcommand("verify", "Recomputes all checksums and makes some shards again");
  add_folder(*verify, "dir", verifying.out);
  add_number(*verify, "--regenerate", verifying.regenerate, 0, kMost, "Shards that are made again")
      ->default_str(std::to_string(verifying.regenerate));
  verify->add_flag("--remove-bad", verifying.remove_bad,
                   "Removes files that are not what the manifest says: 'resume' makes them again");
  CLI::App* show = app.add_subcommand("show", "What a data set is, and how far it is");
  add_folder(*show, "dir", showing.out);
  show->add_flag("--json", showing.json, "As JSON");
  CLI::App* list = app.add_subcommand("list", "Generators and formats, with their settings");
  app.require_subcommand(1);
  app.footer(kCodes);
  for (CLI::App* verb : {run, plan}) verb->footer(kCodes);
  if (const auto verb = nearest_verb(app, arguments))
    return ExitNow{wrong_usage(troupe::InvalidArgumentError(
        fmt::format("there is no verb {}: did you mean {}? 'datagen --help' lists them", arguments[1], *verb)))};
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ExtrasError& error) {
    suggest(app);
    return ExitNow{app.exit(error) == 0 ? 0 : kExitUsage};
  } catch (const CLI::ParseError& error) { return ExitNow{app.exit(error) == 0 ? 0 : kExitUsage}; }
  if (resume->parsed()) return resuming;
  if (verify->parsed()) return verifying;
  if (show->parsed()) return showing;
  if (list->parsed()) return ListCommand{};
  auto choices = choices_of(flags, settings, file);
  if (!choices.ok()) return ExitNow{wrong_usage(choices.error())};
  if (plan->parsed()) return PlanCommand{*std::move(choices)};
  running.choices = *std::move(choices);
  running.name = flags.name.value_or("");
  return running;
}

}  // namespace datagen

#include "apps/rl/program/seeds.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/common/progress.h"
#include "apps/rl/program/child_process.h"
#include "apps/rl/program/exit_codes.h"
#include "apps/rl/training/chart.h"
#include "apps/rl/training/seeds_summary.h"

namespace rl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{100};
constexpr std::array<std::pair<const char*, const char*>, 3> kNamed{
    {{"env", "--env"}, {"python", "--python"}, {"gym_import", "--gym-import"}}};
// All of them, and those that hold over what a seed's checkpoint says (RCL-2).
constexpr const char *kSettings = "config.yaml", *kChanges = "changes.yaml";
constexpr std::size_t kTailBytes = 4096;  // of progress.jsonl: more than a line

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The last whole line of a file that grows; empty: there is none.
std::string last_line(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return {};
  const auto size = static_cast<std::size_t>(in.tellg());
  const std::size_t taken = std::min(size, kTailBytes);
  in.seekg(static_cast<std::streamoff>(size - taken));
  std::string tail(taken, '\0');
  in.read(tail.data(), static_cast<std::streamsize>(taken));
  const std::size_t end = tail.rfind('\n');
  if (end == std::string::npos) return {};
  const std::size_t begin = end == 0 ? std::string::npos : tail.rfind('\n', end - 1);
  return tail.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? 0 : begin + 1));
}

/// Steps that it is known to have made.
std::int64_t steps_so_far(const std::filesystem::path& folder) {
  boost::system::error_code wrong;
  const boost::json::value line = boost::json::parse(last_line(folder / "progress.jsonl"), wrong);
  if (wrong || !line.is_object()) return 0;
  const boost::json::value* steps = line.as_object().if_contains("steps");
  return steps != nullptr && steps->is_int64() ? steps->as_int64() : 0;
}

class SeedRuns {
 public:
  explicit SeedRuns(const TrainCommand& command)
      : command_(command), progress_(stderr, ::isatty(STDERR_FILENO) != 0) {
    for (std::uint64_t i = 0; i < command.seeds; ++i) {
      const std::uint64_t seed = command.config.seed + i;
      runs_.push_back({.seed = seed, .folder = command.out / fmt::format("seed-{}", seed)});
    }
  }

  int run() {
    bool interrupted = false;
    try {
      while (!all_ended()) {
        start_some();
        troupe::sleep_for(kLook);
        look();
        show(false);
      }
    } catch (const troupe::CancelledError&) {
      interrupted = true;
      stop();
    }
    show(true);
    return finish(interrupted);
  }

 private:
  struct Run {
    std::uint64_t seed;
    std::filesystem::path folder;
    std::optional<ChildProcess> process = {};
    std::optional<int> exit_code = {};
    bool begun = false;
    std::int64_t steps = 0, steps_before = 0;  // those of an earlier run, when it goes on
  };

  [[nodiscard]] bool all_ended() const {
    return std::ranges::all_of(runs_, [](const Run& run) { return run.exit_code.has_value(); });
  }
  [[nodiscard]] std::size_t running() const {
    const auto runs = [](const Run& run) { return run.process.has_value(); };
    return static_cast<std::size_t>(std::ranges::count_if(runs_, runs));
  }

  void start_some() {
    for (Run& run : runs_) {
      if (running() >= command_.parallel) return;
      if (!run.process && !run.exit_code) start(run);
    }
  }

  void start(Run& run) {
    const std::filesystem::path checkpoint = run.folder / "checkpoint.bin";
    const bool goes_on = command_.resume == command_.out && std::filesystem::exists(checkpoint);
    std::vector<std::string> arguments = command_.verb;
    arguments.insert(arguments.end(), {"--config", (command_.out / (goes_on ? kChanges : kSettings)).string(), "--seed",
                                       std::to_string(run.seed), "--out", run.folder.string(),
                                       "--end-with-input"});
    for (const auto& [name, flag] : kNamed)  // the file says it, too, but what was typed is not asked about (NPG-1)
      if (const boost::json::value* word = command_.typed.if_contains(name))
        arguments.insert(arguments.end(), {flag, std::string(word->as_string())});
    if (goes_on) arguments.insert(arguments.end(), {"--resume", checkpoint.string()});
    if (!command_.tensorboard) arguments.emplace_back("--no-tensorboard");
    if (!command_.keep_replay) arguments.emplace_back("--no-replay");
    arguments.insert(arguments.end(), {"--max-failures", std::to_string(command_.max_failures)});
    if (command_.resume == command_.out) run.steps = run.steps_before = steps_so_far(run.folder);
    std::error_code ignored;  // the log says what is wrong with the folder
    std::filesystem::remove(run.folder / "result.json", ignored);  // an older run's is not this one's
    std::filesystem::create_directories(run.folder, ignored);
    auto started = ChildProcess::start(arguments, run.folder / "log.txt");
    if (started.ok()) {
      run.process.emplace(std::move(*started));
      run.begun = true;
      return;
    }
    progress_.note(fmt::format("seed {}: {}", run.seed, started.error().message()));
    run.exit_code = kExitFailed;
  }

  void look() {
    for (Run& run : runs_) {
      if (!run.process) continue;
      run.steps = std::max(run.steps, steps_so_far(run.folder));  // a copy's line names steps that are over
      if (run.process->running()) continue;
      run.exit_code = run.process->exit_code();
      run.process.reset();
      const int code = *run.exit_code;
      if (code != 0 && code != kExitNotSolved && code != kExitInterrupted)
        progress_.note(fmt::format("seed {} failed ({}): {}: {}", run.seed, code, (run.folder / "log.txt").string(),
                                   last_line(run.folder / "log.txt")));
    }
  }

  /// SDS-3. Waits work again during the grace that the runtime gives.
  void stop() {
    for (Run& run : runs_) {
      if (run.process) run.process->interrupt();
      else if (!run.exit_code) run.exit_code = kExitInterrupted;
    }
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(command_.stop_deadline);
    while (running() > 0 && Clock::now() < end) {
      troupe::sleep_for(kLook);
      look();
    }
    for (Run& run : runs_) {
      if (!run.process) continue;
      run.process.reset();  // kills it
      run.exit_code = kExitFailed;
    }
  }

  void show(bool last) {
    const std::chrono::duration<double> elapsed = Clock::now() - started_;
    std::int64_t steps = 0, now = 0;  // now: of this run alone
    std::size_t ended = 0;
    for (const Run& run : runs_) {
      steps += run.steps, now += run.steps - run.steps_before;
      ended += run.exit_code ? 1 : 0;
    }
    const double all = static_cast<double>(command_.config.total_steps) * static_cast<double>(runs_.size());
    const auto line = [&](int bar_width) {
      const double rate = elapsed.count() > 0 ? static_cast<double>(now) / elapsed.count() : 0;
      const double left = std::max(0.0, all - static_cast<double>(steps));
      return fmt::format("{}{} steps of {} seeds  {} ended, {} running  {} steps/s  ETA {}",
                         apps::bar(static_cast<double>(steps) / all, bar_width), apps::grouped(steps), runs_.size(),
                         ended, running(), apps::short_rate(rate), rate > 0 ? apps::clock_time(left / rate) : "-:--");
    };
    progress_.update(elapsed.count(), line, last);
  }

  [[nodiscard]] std::vector<SeedOutcome> outcomes() {
    std::vector<SeedOutcome> out;
    for (const Run& run : runs_) {
      const std::string result = run.begun ? text_of_file(run.folder / "result.json") : std::string();
      auto read = seed_outcome(run.seed, *run.exit_code, result);
      if (read.ok()) {
        out.push_back(std::move(*read));
        continue;
      }
      out.push_back({.seed = run.seed, .exit_code = *run.exit_code});
      if (out.back().ended()) {  // it said that all is well, and has left nothing
        out.back().exit_code = kExitFailed;
        progress_.note(read.error().message());
      }
    }
    return out;
  }

  int finish(bool interrupted) {
    const std::vector<SeedOutcome> all = outcomes();
    boost::json::object result = summary_json(all);
    RunConfig config = command_.config;
    result["program"] = "rl --seeds", result["algo"] = config.algo, result["env"] = config.env.id;
    result["config"] = to_json(settings_of(config));
    result["interrupted"] = interrupted;
    apps::write_file(command_.json, boost::json::serialize(result) + "\n").value();
    fmt::print("{}", summary_text(all));
    draw(all);
    fmt::print("result {}\n", command_.json.string());
    if (interrupted) {
      fmt::print("go on with: --seeds {} --resume {}\n", command_.seeds, command_.out.string());
      return kExitInterrupted;
    }
    const SeedsSummary summary = summarize(all);
    if (summary.failed + summary.interrupted > 0) return kExitFailed;
    return std::ranges::all_of(all, [](const SeedOutcome& one) { return one.exit_code == 0; }) ? 0 : kExitNotSolved;
  }

  void draw(const std::vector<SeedOutcome>& all) {
    std::vector<SeedCurve> curves;
    for (const SeedOutcome& one : all)
      if (one.ended() && !one.curve.empty()) curves.push_back({.seed = one.seed, .points = one.curve});
    if (curves.empty()) return;
    const bool of_copies = std::ranges::all_of(all, [](const SeedOutcome& one) { return one.curve_of_copies; });
    const RunConfig& config = command_.config;
    const auto task = task_of(config);
    const auto picture = seeds_svg(curves, {.title = fmt::format("{} on {}, seeds {} to {}", config.algo, config.env.id,
                                                                 runs_.front().seed, runs_.back().seed),
                                            .y_label = of_copies ? "mean return, without exploration"
                                                                 : SeedsChartOptions{}.y_label,
                                            .total_steps = config.total_steps,
                                            .threshold = task.ok() ? task->specs.reward_threshold : std::nullopt});
    if (!picture.ok()) return progress_.note("no picture: " + std::string(picture.error().message()));
    const std::filesystem::path path = command_.out / "seeds.svg";
    apps::write_file(path, *picture).value();
    fmt::print("picture {}\n", path.string());
  }

  const TrainCommand& command_;
  Clock::time_point started_ = Clock::now();
  apps::ProgressReporter progress_;
  std::vector<Run> runs_;
};

}  // namespace

int train_seeds(const TrainCommand& command) {
  try {
    if (command.end_with_input) interrupt_when_input_ends().value();
    for (const auto& path : {command.json, command.out / kSettings, command.out / kChanges})
      apps::check_writable(path).value();
    RunConfig config = command.config;
    (void)task_of(config).value();  // what is wrong with it is said once, not by every seed
    apps::write_file(command.out / kSettings, to_yaml(settings_of(config))).value();
    std::vector<Setting> changes = settings_of(config);
    const auto same = [&](const Setting& one) { return one.name != "algo" && !command.changes.contains(one.name); };
    std::erase_if(changes, same);
    apps::write_file(command.out / kChanges, to_yaml(changes)).value();
    fmt::print(stderr, "{}", settings_text(config));
    return SeedRuns(command).run();
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace rl

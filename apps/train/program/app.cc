#include "apps/train/program/app.h"

#include <charconv>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/train/checkpoint/checkpoint.h"
#include "apps/train/program/drive.h"
#include "apps/train/model/gpt_device.h"
#include "apps/train/program/joined.h"

namespace troupe::train {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A checkpoint at Ctrl-C waits for the step under way.
constexpr auto kGrace = 30s;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<int> whole_number(const char* name, const std::string& text) {
  int value = -1;
  const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (bad != std::errc() || end != text.data() + text.size() || value < 0)
    return InvalidArgumentError(std::string(name) + "=" + text + " is no number of ranks");
  return value;
}

}  // namespace

Result<std::optional<LaunchedRank>> rank_from_environment() {
  constexpr const char* kNames[][3] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"},
                                       {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"}};
  for (const auto& [rank_name, size_name, job_name] : kNames) {
    const std::string rank = variable(rank_name), size = variable(size_name);
    if (rank.empty() || size.empty()) continue;
    const auto r = whole_number(rank_name, rank), n = whole_number(size_name, size);
    if (!r.ok()) return r.error_ptr();
    if (!n.ok()) return n.error_ptr();
    if (*r >= *n)
      return InvalidArgumentError(fmt::format("{}={} and {}={} do not fit", rank_name, rank, size_name, size));
    return std::optional(LaunchedRank{.rank = *r, .size = *n, .job = variable(job_name)});
  }
  return std::optional<LaunchedRank>();
}

Status check_device(const AppCommand& command) {
  if (run_of(command.job).device == Device::kCpu) return {};
  const auto* gpt = std::get_if<GptSettings>(&command.job);
  if (gpt == nullptr)
    return InvalidArgumentError(
        "--device cuda: this program trains on the CPU only; the model that runs on GPUs is gpt");
  return check_device_heads({.channels = gpt->channels, .heads = gpt->heads}, Precision::kFloat);
}

Status check_command(const AppCommand& command) {
  const RunSettings& run = run_of(command.job);
  if (Status there = check_device(command); !there.ok()) return there;
  if (Status fits = check(trainer_options(run).schedule); !fits.ok())
    return InvalidArgumentError("the learning rate's schedule: " + fits.error().message());
  for (const fs::path& path : {command.json, command.curve})
    if (Status writable = apps::check_writable(path); !writable.ok()) return writable;
  if (run.checkpoints.empty())
    return run.resume ? Status(InvalidArgumentError("--resume needs --checkpoint: the folder to go on from"))
                      : Status();
  if (Status writable = apps::check_writable(fs::path(run.checkpoints) / "step"); !writable.ok()) return writable;
  const bool there = !CheckpointFolder({.path = run.checkpoints}).steps().empty();
  if (run.resume && !there) return NotFoundError("--resume: there is no checkpoint in " + run.checkpoints);
  if (!run.resume && there && !command.overwrite)
    return InvalidArgumentError(run.checkpoints +
                                " holds the checkpoints of a run: --resume goes on with it, --overwrite removes them, "
                                "--checkpoint names another folder");
  return {};
}

void keep_schedule(RunSettings& run) {
  if (!run.resume || run.checkpoints.empty() || run.decay != Decay::kCosine || run.decay_steps != 0) return;
  if (const auto description = CheckpointFolder({.path = run.checkpoints}).schedule())
    run.decay_steps = cosine_end(*description).value_or(0);
}

void remove_checkpoints(const AppCommand& command) {
  const RunSettings& run = run_of(command.job);
  if (!command.overwrite || run.resume || run.checkpoints.empty()) return;
  const CheckpointFolder folder({.path = run.checkpoints});
  std::error_code error;
  for (const std::int64_t step : folder.steps()) fs::remove(folder.file_of(step), error);
  fs::remove(folder.best_file(), error);
}

int finish(const AppCommand& command, RunReport& report, RunEnd end) {
  if (!end.error.empty() && run_of(command.job).resume && report.log().recoveries.empty()) {
    // It never began: picture and result are those of the run that it was to go on with.
    fmt::print(stderr, "{}: {}\n", command.program, end.error);
    return 1;
  }
  report.end(end.seconds);
  end.picture = command.curve;
  end.checkpoint = run_of(command.job).checkpoints;
  apps::write_file(command.curve, curve_svg(report.facts(), report.log())).value();
  apps::write_file(command.json, result_json(report.facts(), report.log(), end)).value();
  const TrainingLog& log = report.log();
  if (!end.error.empty()) {
    fmt::print(stderr, "{}: {}\n", command.program, end.error);
  } else {
    fmt::print("{}: {} steps in {:.1f} s", end.interrupted ? "interrupted" : "done", log.reached(), end.seconds);
    if (!log.evaluations.empty()) {
      const EvaluationLine& last = log.evaluations.back();
      fmt::print(", validation loss {:.4f}", last.loss);
      if (last.accuracy >= 0) fmt::print(", accuracy {:.4f}", last.accuracy);
    }
    fmt::print("\n");
  }
  if (!end.sample.empty()) fmt::print("----\n{}\n----\n", end.sample);
  if (end.interrupted && !end.checkpoint.empty()) fmt::print("go on with: --resume\n");
  fmt::print("picture {}\nresult {}\n", end.picture.string(), command.json.string());
  if (!end.checkpoint.empty()) fmt::print("checkpoints {}\n", end.checkpoint.string());
  return !end.error.empty() ? 1 : end.interrupted ? 130 : 0;
}

namespace {

/// Runs `body` with a checked command; every error is one line.
template <class Body>
int with_command(CommandLine parse, std::span<char* const> arguments, const Body& body) {
  const auto parsed = parse(arguments);
  if (const auto* exit_now = std::get_if<ExitNow>(&parsed)) return exit_now->code;
  const auto& command = std::get<AppCommand>(parsed);
  try {
    return body(command);
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", command.program, error.what());
    return 1;
  }
}

}  // namespace

int train_main(int argc, char** argv, CommandLine parse) {
  const auto launched = rank_from_environment();
  if (!launched.ok()) {
    fmt::print(stderr, "{}\n", launched.error().what());
    return 2;
  }
  if (*launched)
    return with_command(parse, {argv, static_cast<std::size_t>(argc)},
                        [&](const AppCommand& command) { return train_joined(command, **launched); });
  return troupe::run(argc, argv, RunOptions{.shutdown_grace = kGrace}, [&](std::span<char* const> arguments) {
    return with_command(parse, arguments, [](const AppCommand& command) { return drive(command); });
  });
}

}  // namespace troupe::train

#include "apps/train/program/command_line.h"

#include <CLI/CLI.hpp>

namespace troupe::train {
namespace {

constexpr std::int64_t kStepsMax = std::int64_t{1} << 52;

/// What CLI11 fills before it becomes a command.
struct Flags {
  std::filesystem::path out = {}, json = {}, curve = {}, checkpoint = {};
  bool no_checkpoint = false;
  std::string device = "cpu";
  int zero = 0;
};

void add_run_flags(CLI::App& app, RunSettings& run, Flags& flags) {
  app.add_option("--workers", run.workers, "Ranks, each an actor with a CPU of its own where there are enough")
      ->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_option("--seed", run.seed, "Seed of the parameters and of the order of the data")->capture_default_str();
  app.add_option("--steps", run.steps, "Updates in all, those before --resume included")
      ->check(CLI::Range(std::int64_t{1}, kStepsMax))->capture_default_str();
  app.add_option("--batch", run.batch, "Rows of the global batch, cut among the ranks")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 24))->capture_default_str();
  app.add_option("--micro-batch", run.micro_rows, "Rows at once in a rank; gradients accumulate (default: all)");
  app.add_option("--zero", flags.zero, "1: each rank keeps only its share of the optimizer's state (ZeRO-1)")
      ->check(CLI::IsMember({0, 1}))->capture_default_str();
  app.add_option("--data", run.data, "Data file (default: the project's copy)");
  app.add_option("--rate", run.rate, "Learning rate after the warm-up")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--reference-batch", run.reference_batch,
                 "The batch for which --rate holds: the rate is scaled linearly, with gradual warm-up");
  app.add_option("--warmup", run.warmup, "Steps of warm-up (default: a twentieth of the decay, at most 100)")
      ->check(CLI::Range(std::int64_t{0}, kStepsMax));
  app.add_option("--decay-steps", run.decay_steps,
                 "Where the cosine ends (default: --steps; with --resume, where it ended before)")
      ->check(CLI::Range(std::int64_t{1}, kStepsMax));
  app.add_option("--weight-decay", run.optimizer.weight_decay, "Weight decay")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--clip", run.max_norm, "Largest norm of the gradient; 0: not clipped")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--bucket-bytes", run.bucket_bytes, "Size of gradient buckets (default: first 1 MiB, then 25 MiB)");
  app.add_option("--evaluate-every", run.evaluate_every, "Steps between validations; 0: at the end")
      ->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--commit-every", run.commit_every,
                 "Steps between commits to other ranks' memory, at which replacements are taken in; 0: only when a "
                 "group is formed, and no replacement is taken in")
      ->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--checkpoint-every", run.checkpoint_every, "Steps between checkpoints; 0: at the end")
      ->check(CLI::NonNegativeNumber)->capture_default_str();
  app.add_option("--step-timeout", run.step_timeout,
                 "Seconds that ranks wait for one that is slow but alive: in a step, or while it writes a checkpoint")
      ->check(CLI::Range(0.001, 1e7))->capture_default_str();
  app.add_option("--heartbeat-timeout", run.heartbeat_timeout,
                 "Seconds without an answer after which a rank is taken for frozen, killed and replaced")
      ->check(CLI::Range(0.1, 1e7))->capture_default_str();
  app.add_option("--keep-last", run.keep_last, "Checkpoints that are kept, beside the best")
      ->check(CLI::Range(1, 1000))->capture_default_str();
}

void add_app_flags(CLI::App& app, AppCommand& command, Flags& flags, const char* device_help) {
  RunSettings& run = run_of(command.job);
  app.add_option("--device", flags.device, device_help)->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str();
  app.add_option("--out", flags.out, "Folder for picture, result and checkpoints")->capture_default_str();
  app.add_option("--curve", flags.curve, "Picture of the loss (default OUT/learning_curve.svg)");
  app.add_option("--json", flags.json, "Result file (default OUT/result.json)");
  app.add_option("--checkpoint", flags.checkpoint, "Folder of checkpoints (default OUT/checkpoints)");
  app.add_flag("--no-checkpoint", flags.no_checkpoint, "Write no checkpoints");
  app.add_flag("--resume", run.resume, "Go on from the newest checkpoint; give the same settings again");
  app.add_flag("--overwrite", command.overwrite, "Remove the checkpoints of another run from the folder");
  app.footer(
      "Under mpirun or torchrun every process is a rank.\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. --troupe-help lists the runtime's own flags.");
}

std::variant<AppCommand, ExitNow> parsed(CLI::App& app, std::span<char* const> arguments, AppCommand& command,
                                         Flags& flags) {
  try {
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::ParseError& error) { return ExitNow{app.exit(error) == 0 ? 0 : 2}; }
  RunSettings& run = run_of(command.job);
  run.device = flags.device == "cuda" ? Device::kCuda : Device::kCpu;
  run.zero = flags.zero == 1 ? Zero::k1 : Zero::k0;
  command.json = flags.json.empty() ? flags.out / "result.json" : flags.json;
  command.curve = flags.curve.empty() ? flags.out / "learning_curve.svg" : flags.curve;
  const std::filesystem::path folder = flags.checkpoint.empty() ? flags.out / "checkpoints" : flags.checkpoint;
  // ranks have folders of their own
  if (!flags.no_checkpoint) run.checkpoints = std::filesystem::absolute(folder).string();
  for (std::string* path : {&run.data})
    if (!path->empty()) *path = std::filesystem::absolute(*path).string();
  return command;
}

}  // namespace

std::variant<AppCommand, ExitNow> parse_gpt(std::span<char* const> arguments) {
  AppCommand command{.program = "gpt", .job = GptSettings{}};
  auto& gpt = std::get<GptSettings>(command.job);
  Flags flags{.out = "gpt-out"};
  CLI::App app(
      "Trains a GPT-2 on text, data-parallel. The defaults are the published small-CPU recipe of the character GPT on\n"
      "tinyshakespeare. A rank that is killed is replaced; Ctrl-C leaves a checkpoint for --resume.",
      "gpt");
  add_run_flags(app, gpt.run, flags);
  app.add_option("--layers", gpt.layers, "Blocks")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--heads", gpt.heads, "Heads of attention")->check(CLI::Range(1, 1000))->capture_default_str();
  app.add_option("--channels", gpt.channels, "Width")->check(CLI::Range(1, 65536))->capture_default_str();
  app.add_option("--context", gpt.context, "Positions a row")->check(CLI::Range(1, 65536))->capture_default_str();
  app.add_option("--rate-min", gpt.run.rate_min, "Learning rate at the end of the cosine")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--validation-rows", gpt.validation_rows, "Fixed windows of the validation part")
      ->check(CLI::Range(1, 1 << 24))->capture_default_str();
  app.add_flag("--bytes", gpt.bytes, "The vocabulary is all 256 bytes, not the characters of the text");
  app.add_option("--recorded", gpt.recorded,
                 "Folder of a recorded run: take its start, batches and validation windows");
  app.add_option("--sample", command.sample.tokens, "Write so many characters when trained");
  app.add_option("--prompt", command.sample.prompt, "What they begin with (default: a new line)");
  app.add_option("--temperature", command.sample.temperature, "0: always the likeliest character")
      ->check(CLI::NonNegativeNumber)->capture_default_str();
  add_app_flags(app, command, flags, "Where to compute; cuda: each worker on a GPU of its own, in float");
  auto result = parsed(app, arguments, command, flags);
  if (auto* done = std::get_if<AppCommand>(&result)) {
    auto& settings = std::get<GptSettings>(done->job);
    if (!settings.recorded.empty()) settings.recorded = std::filesystem::absolute(settings.recorded).string();
    done->sample.seed = settings.run.seed;
  }
  return result;
}

std::variant<AppCommand, ExitNow> parse_mlp(std::span<char* const> arguments) {
  AppCommand command{.program = "mlp", .job = mlp_defaults()};
  auto& mlp = std::get<MlpSettings>(command.job);
  Flags flags{.out = "mlp-out"};
  std::string activation = "tanh", optimizer = "sgd";
  CLI::App app(
      "Trains a perceptron on 8x8 handwritten digits, data-parallel. The defaults are ten epochs of the recorded run.\n"
      "A rank that is killed is replaced; Ctrl-C leaves a checkpoint for --resume.",
      "mlp");
  add_run_flags(app, mlp.run, flags);
  app.add_option("--hidden", mlp.hidden, "Sizes of the hidden layers")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--activation", activation, "Of the hidden layers")
      ->check(CLI::IsMember({"tanh", "relu"}))
      ->capture_default_str();
  app.add_option("--optimizer", optimizer, "adamw: give --rate 0.002 --weight-decay 0.01 too")
      ->check(CLI::IsMember({"sgd", "adamw"}))->capture_default_str();
  add_app_flags(app, command, flags, "Where to compute; this program has no GPU version");
  auto result = parsed(app, arguments, command, flags);
  if (auto* done = std::get_if<AppCommand>(&result)) {
    auto& settings = std::get<MlpSettings>(done->job);
    settings.activation = activation == "relu" ? Activation::kRelu : Activation::kTanh;
    if (optimizer == "adamw") {
      settings.run.optimizer.rule = Rule::kAdamW;
      settings.run.optimizer.beta1 = 0.9, settings.run.optimizer.beta2 = 0.999;
    }
  }
  return result;
}

}  // namespace troupe::train

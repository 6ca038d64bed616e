#include "apps/rl/program/train.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/common/progress.h"
#include "apps/rl/training/chart.h"
#include "apps/rl/training/checkpoint.h"
#include "apps/rl/program/actors.h"
#include "apps/rl/training/progress.h"
#include "apps/rl/training/result_json.h"

namespace rl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr double kCheckpointInterval = 10;  // seconds
constexpr int kExitNotSolved = 3, kExitInterrupted = 130;

std::vector<Metric> worth_a_look(const TrainingLog& log) {
  std::vector<Metric> out;
  for (const char* name : {"kl", "entropy", "explained_variance"}) {
    if (const std::optional<double> value = log.last(name)) out.push_back({name, *value});
  }
  return out;
}

class TrainingRun {
 public:
  TrainingRun(const TrainCommand& command, const RunConfig& config, Task task,
              const std::optional<Checkpoint>& resumed)
      : command_(command), config_(config), task_(std::move(task)), progress_(stderr, ::isatty(STDERR_FILENO) != 0) {
    log_.threshold = task_.specs.reward_threshold;
    if (resumed) {
      log_ = resumed->log;
      task_.moments = resumed->policy.moments;
      resumed_from_ = log_.steps = resumed->policy.steps;
      seconds_before_ = log_.seconds;
    }
    learner_ = troupe::actor<LearnerActor>.remote(learner_options(config, task_.policy),
                                                  resumed ? std::optional(resumed->learner) : std::nullopt);
    for (std::size_t i = 0; i < config.num_workers; ++i) {
      const auto restartable = troupe::actor<RolloutActor>.options({.max_restarts = 5, .max_task_retries = 3});
      workers_.push_back(restartable.remote(rollout_options(config, task_.policy, i, resumed_from_)));
    }
  }

  int run() {
    bool interrupted = false;
    try {
      loop();
    } catch (const troupe::CancelledError&) {
      interrupted = true;  // waits work again during the grace that the runtime gives
      if (round_) end_round();  // the learner learns from it before it is saved: the log must know of it, too
    }
    show(true);
    return finish(interrupted);
  }

 private:
  [[nodiscard]] double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }

  [[nodiscard]] ProgressView view() const {
    return {.steps = log_.steps,
            .total_steps = config_.total_steps,
            .steps_this_run = log_.steps - resumed_from_,
            .seconds = elapsed(),
            .mean_return = log_.mean_return(),
            .metrics = worth_a_look(log_)};
  }

  [[nodiscard]] bool done() const {
    return log_.steps >= config_.total_steps || (config_.stop_when_solved && log_.solved());
  }

  void loop() {
    ParamsRef params = troupe::get(learner_.call<&LearnerActor::publish>());
    double checkpoint_at = kCheckpointInterval;
    while (!done()) {
      params = iterate(params);
      show(false);
      if (elapsed() < checkpoint_at) continue;
      checkpoint_at = elapsed() + kCheckpointInterval;
      checkpoint().value();
    }
  }

  // One round: all workers play with the same parameters, the learner improves them.
  ParamsRef iterate(const ParamsRef& params) {
    std::vector<troupe::ObjectRef<SampleBatch>> batches;
    Round round;
    for (const auto& worker : workers_) {
      auto [batch, report] = worker.call<&RolloutActor::collect>(params, task_.moments);
      batches.push_back(batch);
      round.reports.push_back(report);
    }
    round.update = learner_.call<&LearnerActor::update>(batches);
    round_ = std::move(round);
    return end_round();
  }

  ParamsRef end_round() {
    std::vector<std::vector<EpisodeEnd>> ended;
    for (RolloutReport& report : troupe::get(round_->reports)) {
      ended.push_back(std::move(report.episodes));
      merge(task_.moments, report.deltas);
      for (std::size_t kind = 0; kind < report.faults.size(); ++kind) log_.faults[kind] += report.faults[kind];
    }
    const double seconds = seconds_before_ + elapsed();
    const UpdateReply reply = troupe::get(round_->update);
    round_.reset();
    log_.add(ended, config_.num_envs, config_.horizon, seconds);
    log_.add(reply.report);
    return reply.params;
  }

  [[nodiscard]] Policy policy_of(const StateDict& learner) const {
    return {.env = config_.env,
            .spec = task_.policy,
            .moments = task_.moments,
            .params = learner.get<float>("params"),
            .seed = config_.seed,
            .steps = learner.get_one<std::int64_t>("env_steps"),
            .mean_return = log_.mean_return()};
  }

  void show(bool last) {
    const ProgressView now = view();
    progress_.update(now.seconds, [&](int bar_width) { return progress_line(now, bar_width); }, last);
  }

  troupe::Status checkpoint() {
    const auto state = troupe::try_get(learner_.call<&LearnerActor::save>(), {.timeout = 8s});
    if (!state.ok()) return state.error_ptr();
    return save_checkpoint(command_.checkpoint,
                           {.policy = policy_of(*state), .config = config_, .learner = *state, .log = log_});
  }

  int finish(bool interrupted) {
    log_.seconds = seconds_before_ + elapsed();
    TrainingOutcome outcome{.config = config_,
                            .log = log_,
                            .resumed_from = resumed_from_,
                            .seconds_this_run = elapsed(),
                            .interrupted = interrupted,
                            .policy = {},
                            .picture = command_.out / "learning_curve.svg",
                            .checkpoint = command_.checkpoint};
    checkpoint().value();
    if (!interrupted) {
      const auto saved = load_checkpoint(command_.checkpoint);  // what was written is what is kept as policy
      outcome.policy = command_.out / "policy.bin";
      save_policy(outcome.policy, saved.value().policy).value();
    }
    const std::string title = fmt::format("{} on {}, seed {}", config_.algo, config_.env.id, config_.seed);
    apps::write_file(outcome.picture, learning_curve_svg(log_, title)).value();
    apps::write_file(command_.json, training_json(outcome)).value();
    report(outcome);
    if (interrupted) return kExitInterrupted;
    return log_.solved() || !log_.threshold ? 0 : kExitNotSolved;
  }

  void report(const TrainingOutcome& outcome) const {
    if (log_.solved()) {
      fmt::print("solved: mean return {:.0f} over the last 100 episodes after {} steps, {:.2f} s\n",
                 *log_.threshold, log_.solved_steps, log_.solved_seconds);
    } else {
      const char* how = outcome.interrupted ? "interrupted" : log_.threshold ? "not solved" : "trained";
      fmt::print("{}: {} steps, mean return {:.1f}\n", how, log_.steps,
                 log_.mean_return());
    }
    if (outcome.interrupted) fmt::print("go on with: --resume {}\n", command_.checkpoint.string());
    fmt::print("picture {}\nresult {}\ncheckpoint {}\n", outcome.picture.string(), command_.json.string(),
               command_.checkpoint.string());
    if (!outcome.policy.empty()) fmt::print("policy {}\n", outcome.policy.string());
  }

  const TrainCommand& command_;
  RunConfig config_;
  Task task_;
  Clock::time_point started_ = Clock::now();
  struct Round {
    std::vector<troupe::ObjectRef<RolloutReport>> reports;
    troupe::ObjectRef<UpdateReply> update;
  };
  std::optional<Round> round_;  // under way
  TrainingLog log_;
  std::int64_t resumed_from_ = 0;
  double seconds_before_ = 0;
  apps::ProgressReporter progress_;
  troupe::ActorHandle<LearnerActor> learner_;
  std::vector<troupe::ActorHandle<RolloutActor>> workers_;
};

}  // namespace

int train(const TrainCommand& command) {
  try {
    // Before minutes of work, not after them.
    for (const auto& path : {command.checkpoint, command.json, command.out / "policy.bin"})
      apps::check_writable(path).value();
    std::optional<Checkpoint> resumed;
    if (!command.resume.empty()) resumed = load_checkpoint(command.resume).value();
    RunConfig config = command.over(resumed ? resumed->config : RunConfig{});
    Task task = task_of(config).value();
    if (resumed && resumed->policy.spec != task.policy)
      troupe::InvalidArgumentError("the checkpoint's policy is for another environment or network").raise();
    apps::write_file(command.out / "config.yaml", to_yaml(settings_of(config))).value();
    return TrainingRun(command, config, std::move(task), resumed).run();
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

}  // namespace rl

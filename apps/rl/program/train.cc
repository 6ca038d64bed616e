#include "apps/rl/program/train.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/common/progress.h"
#include "apps/rl/loops/algorithm.h"
#include "apps/rl/program/child_process.h"
#include "apps/rl/program/copies.h"
#include "apps/rl/program/exit_codes.h"
#include "apps/rl/program/journal.h"
#include "apps/rl/program/learner_gpus.h"
#include "apps/rl/training/chart.h"
#include "apps/rl/training/callbacks.h"
#include "apps/rl/training/checkpoint.h"
#include "apps/rl/training/progress.h"
#include "apps/rl/training/result_json.h"

namespace rl {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kFirstCheckpoint = 1, kCheckpointInterval = 10;  // seconds
// For the last checkpoint: nothing is left to learn meanwhile, and after Ctrl-C there are two minutes (kGrace).
constexpr std::chrono::seconds kLastDeadline{600}, kInterruptedDeadline{90};
constexpr std::chrono::seconds kCopiesGrace{10};  // after Ctrl-C, for what they have played by then
constexpr std::int64_t kMostPoints = 2000;  // of a learning curve

std::vector<Metric> worth_a_look(const TrainingLog& log) {
  std::vector<Metric> out;
  constexpr std::array kShown{"loss",    "critic_loss",        "actor_loss", "kl",       "td_error",
                              "entropy", "explained_variance", "q",          "alpha",    "staleness"};
  for (const char* name : kShown) {
    if (const std::optional<double> value = log.last(name)) out.push_back({name, *value});
  }
  return out;
}

GateOptions gate_options(const RunConfig& config, const Task& task) {
  const EvaluationSettings& e = config.evaluation;
  GateOptions out{.every = 0,
                  .threshold = e.threshold ? e.threshold : task.specs.reward_threshold,
                  .until = config.total_steps};
  if (e.every > 0)
    out.every = std::max<std::int64_t>(1, static_cast<std::int64_t>(e.every * static_cast<double>(config.total_steps)));
  return out;
}

/// What the user typed is not asked about; a file that names another Python is (NPG-1).
Checkpoint to_resume(const TrainCommand& command) {
  LoadOptions options;
  const auto typed = [&](const char* name) {
    const boost::json::value* word = command.typed.if_contains(name);
    return word == nullptr ? std::optional<std::string>() : std::string(word->as_string());
  };
  options.python = typed("python"), options.gym_import = typed("gym_import");
  auto loaded = load_checkpoint(command.resume, options);
  if (!loaded.ok() && loaded.error().code() == troupe::ErrorCode::kInvalidArgument && !options.python)
    troupe::InvalidArgumentError(loaded.error().message() + "; or name one with --python").raise();
  return std::move(loaded).value();
}

/// One that this run has written.
Checkpoint own_checkpoint(const TrainCommand& command, const RunConfig& config) {
  return load_checkpoint(command.checkpoint, {.own = &config.env}).value();
}

std::optional<ResumePoint> resume_point(const std::optional<Checkpoint>& resumed) {
  if (!resumed) return std::nullopt;
  return ResumePoint{.steps = resumed->log.steps,
                     .moments = resumed->policy.moments,
                     .state = {.learner = resumed->learner, .parts = resumed->parts},
                     .config = resumed->config};
}

/// The moments of a run are those of what it normalizes: there are none to go on with of anything else.
troupe::Status check_normalized(const EnvSetup& was, const EnvSetup& now) {
  for (const auto& [name, before, after] :
       {std::tuple("normalize-observation", was.normalize_observation, now.normalize_observation),
        std::tuple("normalize-reward", was.normalize_reward, now.normalize_reward)})
    if (before != after)
      return troupe::InvalidArgumentError(fmt::format("the checkpoint was made {} --{}: it cannot go on {} it",
                                                      before ? "with" : "without", name, after ? "with" : "without"));
  return {};
}

/// Somebody is gone whom nobody replaces: going on from a checkpoint helps, where it would not against a mistake.
bool is_death(const troupe::Error& error) {
  switch (error.code()) {
    case troupe::ErrorCode::kWorkerCrashed:
    case troupe::ErrorCode::kNodeDied:
    case troupe::ErrorCode::kOutOfMemory:
    case troupe::ErrorCode::kActorDied:
    case troupe::ErrorCode::kObjectLost:
    case troupe::ErrorCode::kOwnerDied:
    case troupe::ErrorCode::kCollective: return true;
    default: return false;
  }
}

class TrainingRun {
 public:
  TrainingRun(const TrainCommand& command, const RunConfig& config, Task task,
              const std::optional<Checkpoint>& resumed)
      : command_(command),
        config_(config),
        task_(std::move(task)),
        progress_(stderr, ::isatty(STDERR_FILENO) != 0),
        copies_({.gate = gate_options(config, task_),
                 .episodes = config.evaluation.episodes,
                 .best = command.out / "best.bin"},
                [this](const CopyResult& result, bool again) { on_copy(result, again); }),
        journal_({.folder = command.out,
                  .first_step = resumed ? resumed->log.steps : 0,
                  .tensorboard = command.tensorboard},
                 [this](const std::string& text) { progress_.note(text); }) {
    if (resumed) {
      log_ = resumed->log;
      resumed_ = true;
      resumed_from_ = log_.steps;
      seconds_before_ = log_.seconds;
      const auto from = command.resume.empty() ? command.out : command.resume.parent_path();
      copies_.restore(log_.copies, log_.copy_again, task_.policy, from / "best.bin");
    }
    log_.threshold = task_.specs.reward_threshold;
    log_.point_every = config.total_steps / kMostPoints;
  }

  /// The exit code; none when somebody died and the run can go on from its checkpoint, or from its beginning where it
  /// has not got one. `failures`: how often it did.
  std::optional<int> run(const std::optional<Checkpoint>& resumed, std::uint64_t failures) {
    bool interrupted = false;
    try {
      algorithm_ = make_algorithm(config_, task_, resume_point(resumed));
    } catch (const troupe::Error& error) {
      if (can_go_on_after(error, failures)) return std::nullopt;
      throw;
    }
    if (const std::string note = algorithm_->resume_note(); !note.empty()) progress_.note("resumed: " + note);
    try {
      while (!done() || algorithm_->begun()) one_round(may_go_on());
      copies_.finish();
      last_checkpoint(kLastDeadline);
    } catch (const troupe::CancelledError&) {
      interrupted = true;  // waits work again during the grace that the runtime gives
      // The learner learns from what has begun before it is saved: the log must know of it, too.
      if (algorithm_->begun()) progress_.note("this round is finished for the checkpoint");
      while (algorithm_->begun()) one_round(false);
      try {
        copies_.finish(kCopiesGrace);
      } catch (const troupe::Error& error) {  // what was learned is worth more
        progress_.note(fmt::format("a copy was not played: {}", error.what()));
      }
      last_checkpoint(kInterruptedDeadline);
    } catch (const troupe::Error& error) {
      if (can_go_on_after(error, failures)) return std::nullopt;
      return failed(error);
    }
    show(true);
    return finish(interrupted);
  }
  [[nodiscard]] bool checkpointed() const { return checkpointed_; }

 private:
  [[nodiscard]] bool can_go_on_after(const troupe::Error& error, std::uint64_t failures) {
    if (failures >= command_.max_failures || !is_death(error)) return false;
    progress_.note(fmt::format("after {} steps: {}", log_.steps, error.what()));
    return true;
  }

  [[nodiscard]] double elapsed() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  [[nodiscard]] double steps_per_second() const {
    const double seconds = elapsed();
    return seconds > 0 ? static_cast<double>(log_.steps - resumed_from_) / seconds : 0;
  }

  [[nodiscard]] ProgressView view() const {
    return {.steps = log_.steps,
            .total_steps = config_.total_steps,
            .steps_this_run = log_.steps - resumed_from_,
            .seconds = elapsed(),
            .mean_return = log_.mean_return(),
            .mean_length = log_.mean_length(),
            .metrics = worth_a_look(log_)};
  }

  [[nodiscard]] bool done() const {
    return log_.steps >= config_.total_steps || (config_.stop_when_solved && log_.solved()) ||
           (config_.evaluation.stop && copies_.gate().state() == GateState::kPassed) || stopped_;
  }

  /// Whether another round follows this one, before anything is saved. Where what a round learned may end the run at
  /// once, or a callback may, that is not known before it.
  [[nodiscard]] bool may_go_on() const {
    return !done() && elapsed() < checkpoint_at_ && !(config_.stop_when_solved && log_.threshold) && !has_callbacks();
  }

  void one_round(bool another) {
    const Round round = another ? algorithm_->round_before_another() : algorithm_->round();
    for (std::size_t kind = 0; kind < round.faults.size(); ++kind) log_.faults[kind] += round.faults[kind];
    log_.add(round.ended, round.num_envs, round.horizon, seconds_before_ + elapsed());
    if (round.update) log_.add(*round.update);
    journal_.add(log_, steps_per_second());
    copies_.after_round(log_.steps, [this] { return policy_now(); });
    show(false);
    stopped_ = call_callbacks(log_) || stopped_;  // a round that had begun may end after the one that ended the run
    if (elapsed() < checkpoint_at_ || algorithm_->begun()) return;
    checkpoint_on_the_way();
  }

  /// A state that takes long, as gigabytes of a replay do, ends no run: the checkpoint before stays, and the next one
  /// has twice the time, and comes after twice as long.
  void checkpoint_on_the_way() {
    const troupe::Status saved = checkpoint(kSaveDeadline * patience_, LateRunners::kRefuse);
    if (saved.ok() || saved.error().code() != troupe::ErrorCode::kGetTimeout) {
      saved.value();
    } else {
      progress_.note(fmt::format("no checkpoint after {} steps, the one before stays: {}", log_.steps,
                                 saved.error().message()));
      patience_ *= 2;
    }
    checkpoint_at_ = elapsed() + kCheckpointInterval * static_cast<double>(patience_);
  }

  void on_copy(const CopyResult& result, bool again) {
    (again ? static_cast<void>(log_.copy_again = result) : static_cast<void>(log_.copies.push_back(result)));
    journal_.add(result, again);
  }

  [[nodiscard]] Policy policy_of(std::vector<float> params, const Moments& moments) const {
    return {.env = config_.env,
            .spec = task_.policy,
            .moments = moments,
            .params = std::move(params),
            .seed = config_.seed,
            .steps = log_.steps,
            .mean_return = log_.mean_return()};
  }
  [[nodiscard]] Policy policy_now() {
    Weights weights = algorithm_->weights();
    return policy_of(std::move(weights.params), weights.moments);
  }

  void show(bool last) {
    const ProgressView now = view();
    progress_.update(now.seconds, [&](int bar_width) { return progress_line(now, bar_width); }, last);
  }

  /// `deadline`: of each actor that is asked for its state.
  troupe::Status checkpoint(std::chrono::seconds deadline, LateRunners late_runners) {
    auto state = algorithm_->save({.parts = command_.keep_replay, .deadline = deadline, .late_runners = late_runners});
    if (!state.ok()) return state.error_ptr();
    if (!state->note.empty()) progress_.note(state->note);
    Checkpoint out{.policy = policy_now(),
                   .config = config_,
                   .learner = std::move(state->learner),
                   .parts = std::move(state->parts),
                   .log = log_};
    troupe::Status saved = save_checkpoint(command_.checkpoint, out);
    checkpointed_ = checkpointed_ || saved.ok();
    return saved;
  }

  /// What was learned before stays: LRN-3. Where nothing was gained since, what it went on from is not written over: it
  /// may lack what could not be restored.
  int failed(const troupe::Error& error) {
    show(true);
    fmt::print(stderr, "after {} steps of seed {}: {}\n", log_.steps, config_.seed, error.what());
    if (resumed_ && log_.steps == resumed_from_) return kExitFailed;
    try {
      if (const troupe::Status saved = checkpoint(kSaveDeadline, LateRunners::kLeaveOut); saved.ok())
        fmt::print(stderr, "checkpoint {}\n", command_.checkpoint.string());
    } catch (const troupe::Error&) {  // the learner is gone: the last checkpoint remains
    }
    return kExitFailed;
  }

  [[nodiscard]] bool succeeded() const {
    if (log_.solved() || copies_.gate().state() == GateState::kPassed) return true;
    return !log_.threshold && !(copies_.gate().options().every > 0 && copies_.gate().options().threshold);
  }

  /// Somebody may die or be interrupted here as anywhere: it belongs to the run.
  void last_checkpoint(std::chrono::seconds deadline) {
    log_.seconds = seconds_before_ + elapsed();
    checkpoint(deadline, LateRunners::kLeaveOut).value();
  }

  int finish(bool interrupted) {
    journal_.flush();
    TrainingOutcome outcome{.config = config_,
                            .log = log_,
                            .gate = copies_.gate(),
                            .resumed_from = resumed_from_,
                            .seconds_this_run = elapsed(),
                            .interrupted = interrupted,
                            .policy = {},
                            .best = copies_.best_mean() ? command_.out / "best.bin" : std::filesystem::path(),
                            .picture = command_.out / "learning_curve.svg",
                            .checkpoint = command_.checkpoint};
    if (!interrupted) {
      const Checkpoint saved = own_checkpoint(command_, config_);  // what was written is what is kept as policy
      outcome.policy = command_.out / "policy.bin";
      save_policy(outcome.policy, saved.policy).value();
      apps::write_file(command_.json, training_json(outcome)).value();  // whatever becomes of the look
      outcome.final_look = look_at(saved.policy);
    }
    const std::string title = fmt::format("{} on {}, seed {}", config_.algo, config_.env.id, config_.seed);
    apps::write_file(outcome.picture, learning_curve_svg(log_, title)).value();
    apps::write_file(command_.json, training_json(outcome)).value();
    report(outcome);
    if (interrupted) return kExitInterrupted;
    return succeeded() ? 0 : kExitNotSolved;
  }

  /// The policy as it is in the end, where copies are played: the last of them may be of an earlier step.
  std::optional<Evaluation> look_at(const Policy& policy) {
    if (copies_.gate().options().every <= 0) return std::nullopt;
    try {
      return copies_.play_now(policy);
    } catch (const troupe::Error& error) {
      progress_.note(fmt::format("the last policy was not played: {}", error.what()));
      return std::nullopt;
    }
  }

  void report(const TrainingOutcome& outcome) const {
    if (log_.solved()) {
      fmt::print("solved: mean return {:.0f} over the last 100 episodes after {} steps, {:.2f} s\n",
                 *log_.threshold, log_.solved_steps, log_.solved_seconds);
    } else {
      const char* how = outcome.interrupted ? "interrupted" : succeeded() ? "trained" : "not solved";
      if (log_.episodes == 0) fmt::print("{}: {} steps\n", how, log_.steps);  // it played none: bc
      else fmt::print("{}: {} steps, mean return {:.1f}\n", how, log_.steps, log_.mean_return());
    }
    if (log_.episodes > 0)
      fmt::print("last {} episodes: mean return {:.1f}, interquartile mean {:.1f}, mean length {:.1f} steps\n",
                 log_.recent.size(), log_.mean_return(), log_.interquartile_mean_return(), log_.mean_length());
    report_gate();
    if (const auto& look = outcome.final_look)
      fmt::print("the last policy, without exploration: mean return {:.1f}, interquartile mean {:.1f} over {} "
                 "episodes\n",
                 look->mean, interquartile_mean(*look), look->returns.size());
    if (stopped_) fmt::print("ended by a callback\n");
    if (outcome.interrupted)
      fmt::print("go on with: --resume {} --out {}\n", command_.checkpoint.string(), command_.out.string());
    fmt::print("picture {}\nresult {}\ncheckpoint {}\n", outcome.picture.string(), command_.json.string(),
               command_.checkpoint.string());
    if (!outcome.policy.empty()) fmt::print("policy {}\n", outcome.policy.string());
    if (!outcome.best.empty()) fmt::print("best policy {}\n", outcome.best.string());
  }

  void report_gate() const {
    const Gate& gate = copies_.gate();
    if (gate.copies().empty()) {
      fmt::print("without exploration: no copy was played (--evaluate-every plays some, 'evaluate' the policy)\n");
      return;
    }
    fmt::print("without exploration: best copy {:.1f}, last copy {:.1f}\n",
               std::ranges::max(gate.copies(), {}, &CopyResult::mean).mean, gate.copies().back().mean);
    if (!gate.options().threshold) return;
    switch (gate.state()) {
      case GateState::kOpen: fmt::print("gate {:g}: no copy reached it\n", *gate.options().threshold); return;
      case GateState::kAgain:
        fmt::print("gate {:g}: reached once, not played again\n", *gate.options().threshold);
        return;
      case GateState::kPassed:
      case GateState::kFailed:
        fmt::print("gate {:g}: {} by the copy of {} steps, {:.1f} on seeds that nothing else has seen\n",
                   *gate.options().threshold, gate.state() == GateState::kPassed ? "passed" : "not passed",
                   gate.again()->steps, gate.again()->mean);
    }
  }

  const TrainCommand& command_;
  RunConfig config_;
  Task task_;
  Clock::time_point started_ = Clock::now();
  TrainingLog log_;
  std::int64_t resumed_from_ = 0;
  double seconds_before_ = 0, checkpoint_at_ = kFirstCheckpoint;
  int patience_ = 1;  // how much more time than kSaveDeadline a state on the way has
  bool resumed_ = false, checkpointed_ = false;
  bool stopped_ = false;  // by a callback
  apps::ProgressReporter progress_;
  Copies copies_;
  Journal journal_;
  std::unique_ptr<Algorithm> algorithm_;
};

}  // namespace

int train(const TrainCommand& command) {
  try {
    if (command.end_with_input) interrupt_when_input_ends().value();
    // Before minutes of work, not after them.
    for (const auto& path : {command.checkpoint, command.json, command.out / "policy.bin"})
      apps::check_writable(path).value();
    std::optional<Checkpoint> resumed;
    if (!command.resume.empty()) resumed = to_resume(command);
    auto over = resumed ? command.over(resumed->config) : troupe::Result<RunConfig>(command.config);
    if (!over.ok()) {
      fmt::print(stderr, "{}\n", over.error().message());
      return kExitUsage;
    }
    RunConfig config = std::move(*over);
    check_learner_gpus(config).value();
    Task task = task_of(config).value();
    if (resumed) check_normalized(resumed->config.env, config.env).value();
    if (resumed && resumed->policy.spec != task.policy)
      troupe::InvalidArgumentError("the checkpoint's policy is for another environment or network").raise();
    apps::write_file(command.out / "config.yaml", to_yaml(settings_of(config))).value();
    fmt::print(stderr, "{}", settings_text(config));
    bool checkpointed = false;
    for (std::uint64_t failures = 0;; ++failures) {
      {
        TrainingRun run(command, config, task, resumed);
        if (const auto code = run.run(resumed, failures)) return *code;
        checkpointed = checkpointed || run.checkpointed();
      }
      if (checkpointed) resumed = own_checkpoint(command, config);
      fmt::print(stderr, "failure {} of {}: {}\n", failures + 1, command.max_failures,
                 resumed ? fmt::format("going on from the checkpoint of {} steps", resumed->log.steps)
                         : "beginning again, as there is no checkpoint yet");
    }
  } catch (const troupe::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace rl

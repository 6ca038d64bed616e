// Algorithm: one way to learn, at work: the actors that play, keep and learn, and the order in which they are asked.
// The program around it (program/train.h) counts, shows, evaluates and saves; it knows no algorithm but by this.
//
//   make_algorithm ──▶ round() ──▶ round() ... ──▶ save()
//
// Inside of troupe::run; one thread at a time.
//
// Invariants
//   ALG-1  round() that throws CancelledError (Ctrl-C) leaves its round open, if it has begun() by then: the next call
//          finishes it, so that the learner, the log and a checkpoint agree.
//   ALG-2  save() between two rounds, and make_algorithm with what it gave, go on as if nothing had been: bit for bit
//          where the loop is synchronous and its environments can be saved (BE-8), else with episodes begun anew, and
//          resume_note() says so.
//   ALG-3  Rounds give the same, whichever of them were asked for by round_before_another().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/config/run_config.h"
#include "apps/rl/learners/learner.h"
#include "apps/rl/training/rollout.h"

namespace rl {

/// What was played and learned: each of `ended` by num_envs environments in `horizon` steps.
struct Round {
  std::vector<std::vector<EpisodeEnd>> ended;
  std::size_t num_envs = 0, horizon = 0;
  FaultCounts faults{};
  std::optional<UpdateReport> update;  // none: nothing was learned yet
};

/// The present policy.
struct Weights {
  std::vector<float> params;
  Moments moments;
};

struct AlgorithmState {
  StateDict learner, parts;
  std::string note = {};  // what the user should know of what is not in it; empty: all is
};

/// Less than the grace after Ctrl-C.
inline constexpr std::chrono::seconds kSaveDeadline{8};

/// What becomes of a save when runners do not answer in time.
enum class LateRunners {
  kRefuse,    // GetTimeoutError: the state before is more whole
  kLeaveOut,  // it has no runners (SVR-1), and its note says so: there will be no later one
};

struct SaveOptions {
  bool parts = true;  // else the learner's state alone: the replay may be large
  std::chrono::seconds deadline = kSaveDeadline;  // of each actor
  LateRunners late_runners = LateRunners::kRefuse;
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual Round round() = 0;
  /// round() where another one follows before save(): the loop may begin that one early, where it has to wait anyway.
  virtual Round round_before_another() { return round(); }
  /// Whether a round is open, which round() has to end before save(): one that round_before_another() began, or that a
  /// Ctrl-C left open (ALG-1).
  [[nodiscard]] virtual bool begun() const = 0;
  [[nodiscard]] virtual Weights weights() = 0;
  /// GetTimeoutError when an actor does not answer in time: nothing has changed then.
  [[nodiscard]] virtual troupe::Result<AlgorithmState> save(const SaveOptions& options) = 0;
  /// What is not as it was before the run was resumed; empty: all is.
  [[nodiscard]] virtual std::string resume_note() const { return {}; }
};

/// From where an algorithm goes on.
struct ResumePoint {
  std::int64_t steps = 0;
  Moments moments;
  AlgorithmState state;
  RunConfig config = {};  // that it was saved with
};

[[nodiscard]] std::unique_ptr<Algorithm> make_algorithm(const RunConfig& config, const Task& task,
                                                        const std::optional<ResumePoint>& resumed);

}  // namespace rl

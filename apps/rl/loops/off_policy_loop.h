// The synchronous loop of algorithms that learn from a replay (DQN, SAC):
//
//   loop ──params ref──▶ TransitionActor × N ──batch refs──▶ ReplayActor × S ──drawn refs──▶ LearnerActor
//     ▲                                                            ▲                             │
//     │                                                            └──── errors (priorities) ────┤
//     └────────────────────────────────── params ref ────────────────────────────────────────────┘
//
//   a round:  kPlaying ──all shards have added──▶ kLearning ──the learner has answered, errors are sent──▶ kEnding
//                 └──────────────────────────── nothing to learn from yet ────────────────────────────────────┘
//
// A replay of one shard is asked to add and to draw in one breath, because nothing has to be known before: the calls
// follow each other without the loop. Several shards are asked for their masses in between.
//
// Asked so, it begins a round before the one before has ended (OPL-3): its calls wait where they are needed for the
// parameters that the learner is about to give, and the way from the learner over the runner and the replay back to the
// learner does not lead through the loop.
//
// The minibatches of a round are drawn at once, over the mass of all shards; with priorities their errors count from
// the next round on.
//
// Promises: ALG-1 to ALG-3. One thread at a time.
//
// OPL-1  A shard that dies is left out from then on: the replay is smaller, its rows are lost, and the round goes on
//        with the others, or ends without an update where they have no rows yet. When none is left that is the last
//        one's error.
// OPL-2  The same configuration gives the same parameters, however long anything takes.
// OPL-3  A round begins early only where its calls are those that it would make later, in the same order for each
//        actor: with one shard, which has rows already, and without priorities, which wait for the errors before. When
//        the update before it fails nothing of it is played, drawn or learned.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "apps/rl/actors/replay_actor.h"
#include "apps/rl/actors/runners.h"
#include "apps/rl/loops/algorithm.h"
#include "apps/rl/loops/learner_group.h"

namespace rl {

class OffPolicyLoop final : public Algorithm {
 public:
  OffPolicyLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed);

  Round round() override { return run(false); }
  Round round_before_another() override { return run(true); }
  bool begun() const override { return open_ || next_; }
  Weights weights() override;
  troupe::Result<AlgorithmState> save(const SaveOptions& options) override;
  std::string resume_note() const override { return note_; }

 private:
  enum class Stage { kPlaying, kLearning, kEnding };
  struct Shard {
    troupe::ActorHandle<ReplayActor> actor;
    ReplayMass mass = {};
    std::vector<troupe::ObjectRef<ReplayMass>> answers = {};  // that are not read yet, oldest first
  };
  struct Open {
    std::int64_t done = 0;  // environment steps before it
    Stage stage = Stage::kPlaying;
    std::vector<troupe::ObjectRef<RolloutReport>> reports = {};
    std::optional<std::vector<RolloutReport>> seen = {};  // of those, when their moments have been merged
    std::vector<troupe::ObjectRef<DrawnBatches>> drawn = {};  // a shard each
    std::optional<std::tuple<ParamsRef, troupe::ObjectRef<UpdatesReply>>> update = {};
    std::optional<UpdatesReply> reply = {};
    Generator::Saved allot_before = {};  // of a round that began early: the generator, as it was
  };

  [[nodiscard]] std::int64_t steps_of_a_round() const;
  Round run(bool another);
  /// Who keeps what runner i plays in the round behind `done` steps: where there are more shards than runners, all in
  /// turns.
  [[nodiscard]] Shard& shard_of(std::size_t runner, std::int64_t done);
  [[nodiscard]] Open play(const ParamsRef& params, std::int64_t done);
  /// But for those that a round has asked for which began early.
  void read_masses();
  /// Waits until the runners have played, and merges what they saw into the moments.
  void read_reports();
  /// OPL-3
  [[nodiscard]] bool begins_early() const;
  void begin_next();
  [[nodiscard]] bool starts_are_over() const;
  [[nodiscard]] bool can_learn() const;
  /// Whether the draw can be asked for before the masses are known: from the only shard, which has rows already.
  [[nodiscard]] bool draws_ahead() const;
  void draw(Open& round, bool early);
  void learn(bool another);
  void write_back();
  Round end();
  /// The error of whom, unless it says that a shard is gone: then it is left out.
  void leave_out_dead_shards(const troupe::Error& error);

  RunConfig config_;
  Moments moments_;
  std::int64_t steps_ = 0;  // of the rounds that are over
  Generator generator_;     // which shard gives how many rows
  LearnerGroup learners_;
  std::vector<troupe::ActorHandle<TransitionActor>> runners_;
  std::vector<Shard> shards_;
  std::optional<ParamsRef> params_;
  std::optional<Open> open_, next_;  // the round that goes on, and the one that has begun behind it
  std::string note_;
};

}  // namespace rl

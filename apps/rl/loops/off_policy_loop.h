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
// The minibatches of a round are drawn at once, over the mass of all shards; with priorities their errors count from
// the next round on.
//
// Promises: ALG-1, ALG-2. One thread at a time.
//
// OPL-1  A shard that dies is left out from then on: the replay is smaller, its rows are lost, and the round goes on
//        with the others. When none is left that is the last one's error.
// OPL-2  The same configuration gives the same parameters, however long anything takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/rl/actors/replay_actor.h"
#include "apps/rl/actors/runners.h"
#include "apps/rl/loops/algorithm.h"
#include "apps/rl/loops/learner_group.h"

namespace rl {

class OffPolicyLoop final : public Algorithm {
 public:
  OffPolicyLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed);

  Round round() override;
  Weights weights() override;
  troupe::Result<AlgorithmState> save() override;
  std::string resume_note() const override { return note_; }

 private:
  enum class Stage { kPlaying, kLearning, kEnding };
  struct Shard {
    troupe::ActorHandle<ReplayActor> actor;
    ReplayMass mass = {};
    std::vector<troupe::ObjectRef<ReplayMass>> answers = {};  // that are not read yet, oldest first
  };
  struct Open {
    Stage stage = Stage::kPlaying;
    std::vector<troupe::ObjectRef<RolloutReport>> reports = {};
    std::vector<troupe::ObjectRef<DrawnBatches>> drawn = {};  // a shard each
    std::optional<troupe::ObjectRef<UpdatesReply>> update = {};
    std::optional<UpdatesReply> reply = {};
  };

  [[nodiscard]] std::int64_t steps_of_a_round() const;
  void play();
  void read_masses();
  [[nodiscard]] bool starts_are_over() const;
  [[nodiscard]] bool can_learn() const;
  /// Whether the draw can be asked for before the masses are known: from the only shard, which has rows already.
  [[nodiscard]] bool draws_ahead() const;
  void draw();
  void learn();
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
  std::optional<Open> open_;
  std::string note_;
};

}  // namespace rl

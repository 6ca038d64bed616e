// The synchronous loop of algorithms that learn from what their present policy plays (PPO):
//
//   loop ──params ref──▶ RolloutActor × N ──batch refs──▶ LearnerActor ──params ref──▶ loop
//
// The loop only moves refs: batches and parameters lie in the object store, are written once and read in place. One
// put of the parameters serves all rollout actors.
//
// Promises: ALG-1, ALG-2. One thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/rl/actors/runners.h"
#include "apps/rl/loops/algorithm.h"
#include "apps/rl/loops/learner_group.h"

namespace rl {

class OnPolicyLoop final : public Algorithm {
 public:
  OnPolicyLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed);

  /// All workers play with the same parameters, the learner improves them.
  Round round() override;
  bool begun() const override { return open_.has_value(); }
  Weights weights() override;
  troupe::Result<AlgorithmState> save(const SaveOptions& options) override;
  std::string resume_note() const override { return note_; }

 private:
  struct Open {
    std::vector<troupe::ObjectRef<RolloutReport>> reports;
    troupe::ObjectRef<UpdateReply> update;
  };
  void begin();
  Round end();

  RunConfig config_;
  Moments moments_;
  LearnerGroup learners_;
  std::vector<troupe::ActorHandle<RolloutActor>> workers_;
  std::optional<ParamsRef> params_;
  std::optional<Open> open_;
  std::string note_;
};

}  // namespace rl

// The synchronous loop of algorithms that search without a gradient (ARS):
//
//   loop ──params ref, directions──▶ PerturbationActor × N ──returns refs──▶ LearnerActor ──params ref──▶ loop
//
// The directions of an update are dealt to the runners in turn, so that each plays as many as another, but for one.
//
// Promises: ALG-1, ALG-2 (bit for bit with any number of runners: PTR-1). One thread at a time.
//
// SRL-1  Steps of the run are those of whole episodes of perturbed policies; all of them count.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/rl/actors/learner_actor.h"
#include "apps/rl/actors/runners.h"
#include "apps/rl/loops/algorithm.h"

namespace rl {

class SearchLoop final : public Algorithm {
 public:
  SearchLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed);

  Round round() override;
  bool begun() const override { return open_.has_value(); }
  Weights weights() override;
  troupe::Result<AlgorithmState> save(const SaveOptions& options) override;

 private:
  struct Open {
    std::vector<troupe::ObjectRef<RolloutReport>> reports;
    troupe::ObjectRef<UpdateReply> update;
  };
  void begin();
  Round end();

  RunConfig config_;
  Moments moments_;
  std::int64_t updates_ = 0;
  troupe::ActorHandle<LearnerActor> learner_;
  std::vector<troupe::ActorHandle<PerturbationActor>> runners_;
  std::optional<ParamsRef> params_;
  std::optional<Open> open_;
};

}  // namespace rl

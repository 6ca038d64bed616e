// The loop of algorithms that learn from what somebody has recorded (BC), and play nothing themselves:
//
//   file ──▶ loop ──data──▶ DatasetActor ──minibatches refs──▶ LearnerActor ──params ref──▶ loop
//
// A step of such a run is a sample that was learned from; it has no episodes of its own.
//
// Promises: ALG-1, ALG-2 (bit for bit: DAC-1). One thread at a time.
//
// DSL-1  Demonstrations for other spaces than the environment's are an InvalidArgumentError before anything is learned.
// DSL-2  A run goes on with the file that it began with, or not at all: another size is an InvalidArgumentError.
#pragma once

#include <cstdint>
#include <optional>

#include "apps/rl/actors/dataset_actor.h"
#include "apps/rl/actors/learner_actor.h"
#include "apps/rl/loops/algorithm.h"

namespace rl {

class DatasetLoop final : public Algorithm {
 public:
  /// Reads the file: what load_demonstrations says of it.
  DatasetLoop(const RunConfig& config, const Task& task, const std::optional<ResumePoint>& resumed);

  Round round() override;
  bool begun() const override { return open_.has_value(); }
  Weights weights() override;
  troupe::Result<AlgorithmState> save(const SaveOptions& options) override;

 private:
  RunConfig config_;
  std::uint64_t done_ = 0, rows_ = 0;
  troupe::ActorHandle<LearnerActor> learner_;
  troupe::ActorHandle<DatasetActor> data_;
  std::optional<ParamsRef> params_;
  std::optional<std::tuple<ParamsRef, troupe::ObjectRef<UpdatesReply>>> open_;
};

}  // namespace rl

// The actors of the PPO job: thin shells around RolloutWorker and PpoLearner, and the messages between them.
//
//   driver ──params ref──▶ RolloutActor × N ──batch refs──▶ LearnerActor ──params ref──▶ driver
//
// The driver only moves refs: batches and parameters lie in the object store, are written once and read in place. One
// put of the parameters serves all rollout actors.
//
// PA-1  A rollout actor that dies is restarted with fresh environments and a random stream of its own, so that it
//       does not play its first episodes again, and its interrupted call runs again; the learner is not restarted (a
//       run without its optimizer state would be another run): its death ends the program with its error, and the last
//       checkpoint remains.
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include <troupe/troupe.h>

#include "apps/rl/samples/sample_batch.h"
#include "apps/rl/learners/ppo_learner.h"
#include "apps/rl/training/rollout.h"

namespace rl {

using ParamsRef = troupe::ObjectRef<troupe::Array<float>>;

/// A sample batch that lies in the object store.
struct SampleBatch {
  std::vector<Column> columns;
  std::uint64_t rows = 0;
  troupe::Array<std::byte> memory;

  /// As long as this is there.
  [[nodiscard]] SampleView view() const { return {SampleLayout(columns, rows), memory.data()}; }
};

struct RolloutReport {
  std::vector<EpisodeEnd> episodes;
  Moments deltas;
  FaultCounts faults{};
};

struct UpdateReply {
  ParamsRef params;
  UpdateReport report;
};

class RolloutActor {
 public:
  explicit RolloutActor(const RolloutOptions& options);

  /// One batch, and what else was seen in it.
  std::tuple<SampleBatch, RolloutReport> collect(troupe::Array<float> params, const Moments& moments);

 private:
  RolloutWorker worker_;
};

class LearnerActor {
 public:
  /// `resumed`: the state to go on from.
  LearnerActor(PpoOptions options, std::optional<StateDict> resumed);

  /// Puts the current parameters.
  ParamsRef publish() const;
  UpdateReply update(std::vector<troupe::ObjectRef<SampleBatch>> batches);
  StateDict save() const { return learner_.save(); }

 private:
  PpoLearner learner_;
};

}  // namespace rl

// What the actors of a training run send each other. Plain values; batches and parameters lie in the object store and
// are read in place.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <troupe/troupe.h>

#include "apps/rl/learners/learner.h"
#include "apps/rl/samples/fragments.h"
#include "apps/rl/samples/sample_batch.h"
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

/// What a shard of the replay has drawn for several minibatches: batch i has rows[i] rows; all of one after the other
/// in one piece of memory.
struct DrawnBatches {
  std::vector<Column> columns;
  std::vector<std::uint64_t> rows;
  troupe::Array<std::byte> memory;

  /// A view a minibatch, as long as this is there.
  [[nodiscard]] std::vector<SampleView> views() const;
};

/// Who chose a fragment's actions, where that was not the runner itself.
struct InferenceReport {
  double batch_rows = 0;     // mean of the rows that were chosen for together
};

/// What was seen while a batch was played.
struct RolloutReport {
  std::vector<EpisodeEnd> episodes;
  Moments deltas;
  FaultCounts faults{};
  std::optional<FragmentId> fragment = {};  // of a fragment
  std::optional<InferenceReport> inference = {};
};

struct UpdateReply {
  ParamsRef params;
  UpdateReport report;
};

/// Of several updates: means of their metrics, and the absolute errors of each shard's rows in their order.
struct UpdatesReply {
  UpdateReport report;
  std::vector<std::vector<float>> errors;
};

}  // namespace rl

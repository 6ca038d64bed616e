// One shard of a replay: a thin shell around ReplayBuffer. Methods run one at a time.
//
// RAC-1  It is not restarted: what it held is lost with it, and those who draw go on with the other shards.
// RAC-2  Rows for several minibatches are drawn from the priorities as they are when the call runs: errors of an update
//        count from the next draw on.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/rl/actors/messages.h"
#include "apps/rl/algorithms/rng.h"
#include "apps/rl/replay/replay_buffer.h"

namespace rl {

struct ReplayActorOptions {
  ReplayBufferOptions buffer = {};
  std::uint64_t seed = 1;   // of the draws
};

struct DrawOrder {
  std::vector<std::uint64_t> rows;  // of each minibatch
  double beta = 0;
  std::optional<ReplayMass> all = {};  // of all shards; none: of this one, when the call runs
};

class ReplayActor {
 public:
  ReplayActor(const ReplayActorOptions& options, const std::optional<StateDict>& resumed);

  /// What it holds then.
  ReplayMass add(const SampleBatch& batch);
  DrawnBatches draw(const DrawOrder& order);
  /// The same, once that has been added: where it could not be, nothing is drawn.
  DrawnBatches draw_after(const ReplayMass& added, const DrawOrder& order);
  /// The absolute errors of what was drawn, in its order; what it holds then.
  ReplayMass write_back(const DrawnBatches& drawn, const std::vector<float>& errors);
  ReplayMass mass() const { return buffer_.mass(); }
  StateDict save() const;

 private:
  ReplayBuffer buffer_;
  Generator generator_;
};

}  // namespace rl

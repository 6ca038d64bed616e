// InferenceActor: chooses actions for many runners at once (SEED RL, Espeholt et al., 2020): one product of matrices
// for the observations of all, and parameters in one place.
//
//   runner A ──observations──▶ ┐                                  ┌──▶ actions, log-probabilities ──▶ runner A
//   runner B ──observations──▶ ┴─▶ a batch, by size or by time ───┴──▶ ...                        ──▶ runner B
//
// Calls are fibers of one thread: they interleave only where a request waits for its batch.
//
// Invariants
//   INF-1  A batch is chosen for when it has `batch` rows, or its oldest request has waited for `wait`.
//   INF-2  It knows nothing that it cannot be told again: a request of a runner that was given newer parameters than it
//          has is answered with its own version, and the runner gives it those. So one that died is restarted, and the
//          run goes on.
//   INF-3  All rows of a batch are chosen by the newest parameters that it was given, and each reply names them.
//   INF-4  Each life of each of them draws from a stream of its own.
//   INF-5  Parameters that can no longer be had are the error of the runner that gives them: it asks no more.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include <troupe/sync.h>
#include <troupe/troupe.h>

#include "apps/rl/policies/policy_sampler.h"

namespace rl {

struct InferenceOptions {
  PolicySpec policy = {};
  std::uint64_t batch = 1;  // rows
  std::chrono::microseconds wait{1000};
  std::uint64_t seed = 1;
  std::uint32_t index = 0;  // inference actors of one run differ only in this
  std::int64_t resumed_from = 0;
};

/// What a runner sees.
struct Observations {
  std::int64_t version = 0;         // of the parameters that it was given
  std::uint64_t rows = 0;
  std::vector<std::uint8_t> bytes;  // of the rows
  std::vector<std::uint8_t> mask = {};  // what is allowed (policies/seen.h); empty: everything
};

struct ChosenActions {
  std::int64_t version = 0;         // below that of the request: nothing was chosen (INF-2)
  std::uint64_t batch_rows = 0;     // that were chosen for together
  std::vector<std::uint8_t> bytes;  // of the rows
  std::vector<float> log_prob;
};

class InferenceActor {
 public:
  explicit InferenceActor(const InferenceOptions& options);

  ChosenActions choose(const Observations& request);
  /// Older ones than it has are not taken.
  void take(std::int64_t version, const troupe::Array<float>& params);

 private:
  /// Requests that are answered together; all fibers that wait for it share it, whoever leaves last.
  struct Batch {
    std::uint64_t rows = 0;
    std::vector<std::byte> obs, actions;
    std::vector<std::uint8_t> mask;  // of all rows, or empty
    std::vector<float> log_prob;
    std::int64_t version = 0;
    std::exception_ptr error;
    troupe::Event chosen;
  };
  void choose_for(Batch& batch);

  InferenceOptions options_;
  std::size_t obs_bytes_, action_bytes_;  // of a row
  PolicySampler sampler_;
  std::int64_t version_ = -1;
  troupe::Array<float> params_;
  std::shared_ptr<Batch> open_;  // none: the next request begins one
};

/// How inference actors of `runners` runners are made: INF-2.
[[nodiscard]] troupe::ActorOptions inference_options(std::size_t runners);

}  // namespace rl

// What a rollout hands to the learner, as spans: who owns the memory (vectors here, arrays of the object store in the
// app) is the caller's business, so nothing is copied on the way.
//
// BA-1  Rows are samples, in the order [step][environment]; every span but obs has one entry a sample.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rl {

/// Where a rollout writes.
struct BatchOut {
  std::span<float> obs;  // [samples][obs_size]
  std::span<std::int32_t> action;
  std::span<float> log_prob, value, advantage, returns;
};

/// What an update reads.
struct BatchView {
  std::span<const float> obs;
  std::span<const std::int32_t> action;
  std::span<const float> log_prob, value, advantage, returns;

  [[nodiscard]] std::size_t samples() const { return action.size(); }
};

/// A batch that owns its memory; for programs and tests without the runtime.
struct OwnedBatch {
  std::vector<float> obs;
  std::vector<std::int32_t> action;
  std::vector<float> log_prob, value, advantage, returns;

  OwnedBatch(std::size_t samples, std::size_t obs_size)
      : obs(samples * obs_size),
        action(samples),
        log_prob(samples),
        value(samples),
        advantage(samples),
        returns(samples) {}
  [[nodiscard]] BatchOut out() { return {obs, action, log_prob, value, advantage, returns}; }
  [[nodiscard]] BatchView view() const { return {obs, action, log_prob, value, advantage, returns}; }
};

}  // namespace rl

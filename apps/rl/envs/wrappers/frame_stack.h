// FrameStack: the last k observations as one of shape [k, ...], oldest first, as Gymnasium's FrameStackObservation
// with padding_type "reset": an episode begins with k copies of its first observation.
//
// One thread at a time.
//
//   FST-1  A final observation is stacked on the frames before it, not on those of the next episode.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

class FrameStack final : public EnvWrapper {
 public:
  /// InvalidArgumentError when `frames` is 0 or the observation is no Box.
  static troupe::Result<std::unique_ptr<FrameStack>> make(std::unique_ptr<BatchEnv> inner, std::size_t frames);

  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  bool visit(StateVisitor& visitor) override {
    visitor.bytes("stacks", stacks_.view());
    return EnvWrapper::visit(visitor);
  }

 private:
  FrameStack(std::unique_ptr<BatchEnv> inner, std::size_t frames);
  [[nodiscard]] std::byte* frame(std::size_t env, std::size_t index);
  void fill(std::size_t env);
  void push(std::size_t env, const std::byte* newest);

  std::size_t frames_, frame_bytes_;
  OwnedRows newest_;      // what is inside shows
  OwnedRows stacks_;      // [n][frames][...]
  OwnedRows final_obs_;   // of those that ended
};

}  // namespace rl

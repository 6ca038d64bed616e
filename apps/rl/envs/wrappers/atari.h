// What is usual around Atari games, by Gymnasium's and Stable-Baselines3's names: no-op starts, fire on reset, the
// greatest of two frames of four, a life as an episode. (Grey and small pictures: image.h.)
//
//   raw frames --> NoopReset --> MaxAndSkip --> EpisodicLife --> FireReset --> Grayscale --> Resize
//     ... several of these --> ConcatEnv --> SameStepReset --> ClipReward --> FrameStack
//
// Each takes one environment alone (size() is 1) of AutoReset::kDisabled: what they do at a beginning, no other
// environment does with it. ConcatEnv makes a batch of several.
//
// One thread at a time. Promises: BE-1 to BE-6 of batch_env.h, of kDisabled; returns and lengths are those of what is
// inside, but EpisodicLife's.
//
//   ATR-1  A beginning ends where an episode can go on: when no-ops or fire end it, another one begins.
//   ATR-2  MaxAndSkip adds up rewards, stops at the end of an episode, and shows the greater number of its last two
//          frames. A fault (BE-7) stops it as well: the row is that of the new game, which has neither no-ops nor fire.
//   ATR-3  EpisodicLife: a life that is lost is `terminated`; the game is reset only when it is over. The next life
//          begins with a no-op.
#pragma once

#include <memory>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/envs/wrappers/env_wrapper.h"
#include "apps/rl/envs/wrappers/episode_wrapper.h"

namespace rl {

inline constexpr std::int64_t kNoopAction = 0;

/// An episode begins with 1 to `noop_max` no-ops, drawn from a stream of its own of the environment's seed.
class NoopReset final : public EnvWrapper {
 public:
  /// InvalidArgumentError: not one environment alone with a choice of actions, or noop_max < 1.
  static troupe::Result<std::unique_ptr<NoopReset>> make(std::unique_ptr<BatchEnv> inner, int noop_max = 30);
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  /// What is inside of it runs elsewhere (gym:).
  bool visit(StateVisitor&) override { return false; }

 private:
  NoopReset(std::unique_ptr<BatchEnv> inner, int noop_max);
  void begin();

  int noop_max_;
  Generator generator_{0};
  StepBuffers last_;
};

/// An episode begins with the actions 1 (fire) and 2.
class FireReset final : public EnvWrapper {
 public:
  /// InvalidArgumentError: not one environment alone with at least three choices.
  static troupe::Result<std::unique_ptr<FireReset>> make(std::unique_ptr<BatchEnv> inner);
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  /// What is inside of it runs elsewhere (gym:).
  bool visit(StateVisitor&) override { return false; }

 private:
  explicit FireReset(std::unique_ptr<BatchEnv> inner);
  void begin();

  StepBuffers last_;
};

/// Each action is taken `skip` times.
class MaxAndSkip final : public EnvWrapper {
 public:
  /// InvalidArgumentError: not one environment alone, no frames of uint8, or skip < 1.
  static troupe::Result<std::unique_ptr<MaxAndSkip>> make(std::unique_ptr<BatchEnv> inner, int skip = 4);
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  /// What is inside of it runs elsewhere (gym:).
  bool visit(StateVisitor&) override { return false; }

 private:
  MaxAndSkip(std::unique_ptr<BatchEnv> inner, int skip);

  int skip_;
  OwnedRows before_, shown_;
};

/// Its episodes, and their returns and lengths, are those of lives.
class EpisodicLife final : public EpisodeWrapper {
 public:
  /// InvalidArgumentError: not one environment alone with a choice of actions and with lives.
  static troupe::Result<std::unique_ptr<EpisodicLife>> make(std::unique_ptr<BatchEnv> inner);
  void reset(std::span<const std::uint64_t> seeds) override;
  /// What is inside of it runs elsewhere (gym:).
  bool visit(StateVisitor&) override { return false; }

 private:
  explicit EpisodicLife(std::unique_ptr<BatchEnv> inner);
  void judge(std::size_t env, std::int64_t length, const StepOut& out) override;
  void broken_off(std::size_t env) override;
  void begin_one(std::size_t env) override;

  StepBuffers last_;
  std::int32_t lives_ = 0;
  bool over_ = true;  // the game, not only a life
};

}  // namespace rl

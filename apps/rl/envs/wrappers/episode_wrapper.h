// EpisodeWrapper: a wrapper that ends episodes where what is inside goes on. What is inside is of AutoReset::kDisabled,
// and so is the wrapper; AutoResetWrapper (auto_reset.h) around it begins the next episodes.
//
// One thread at a time. Promises: BE-1 to BE-6 of batch_env.h, of kDisabled. Returns and lengths are those of the
// episodes that it makes.
//
//   EPW-1  Something inside that resets itself is an InvalidArgumentError at the first step that shows it. A fault
//          (BE-7) is none: its row begins an episode.
#pragma once

#include <cstdint>
#include <vector>

#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

class EpisodeWrapper : public EnvWrapper {
 public:
  explicit EpisodeWrapper(std::unique_ptr<BatchEnv> inner);

  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override { return {ended_, returns_, lengths_, {}}; }
  bool visit(StateVisitor& visitor) override {
    for (std::size_t i = 0; i < episodes_.size(); ++i) {
      StateVisitor inside = visitor.inside(std::to_string(i));
      inside.one("length", episodes_[i].length), inside.one("return", episodes_[i].episode_return);
      inside.one("ended", episodes_[i].ended);
    }
    return EnvWrapper::visit(visitor);
  }

 protected:
  /// After a step of `env`, the `length`-th of its episode: may raise flags.
  virtual void judge(std::size_t env, std::int64_t length, const StepOut& out) = 0;
  /// The episode of one has ended by a fault, and what is inside has begun the next.
  virtual void broken_off(std::size_t) {}
  /// Begins the next episode of one.
  virtual void begin_one(std::size_t env) { inner().reset_one(env); }

 private:
  struct Episode {
    std::int64_t length = 0;
    double episode_return = 0;
    bool ended = false;
  };
  void refuse_ended() const;

  std::vector<Episode> episodes_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
};

}  // namespace rl

// EnvWrapper: a BatchEnv around another one, which changes something of what it gives or takes. By itself it changes
// nothing.
//
// One thread at a time, as what is inside. Returns and lengths of episodes are those of what is inside: raw.
#pragma once

#include <memory>
#include <utility>

#include "apps/rl/envs/batch_env.h"

namespace rl {

class EnvWrapper : public BatchEnv {
 public:
  explicit EnvWrapper(std::unique_ptr<BatchEnv> inner) : inner_(std::move(inner)), specs_(inner_->specs()) {}

  [[nodiscard]] const EnvSpecs& specs() const override { return specs_; }
  [[nodiscard]] std::size_t size() const override { return inner_->size(); }
  void reset(std::span<const std::uint64_t> seeds) override { inner_->reset(seeds); }
  void reset_one(std::size_t env) override { inner_->reset_one(env); }
  void observe(Rows obs) const override { inner_->observe(obs); }
  void step(ConstRows actions, const StepOut& out) override { inner_->step(actions, out); }
  [[nodiscard]] EpisodeEnds ends() const override { return inner_->ends(); }
  [[nodiscard]] std::span<const std::uint8_t> action_mask() const override { return inner_->action_mask(); }
  [[nodiscard]] std::span<const std::int32_t> lives() const override { return inner_->lives(); }
  [[nodiscard]] std::span<const Fault> faults() const override { return inner_->faults(); }
  /// Of what is inside; a wrapper that remembers something adds that.
  bool visit(StateVisitor& visitor) override {
    StateVisitor inside = visitor.inside("inner");
    return inner_->visit(inside);
  }

 protected:
  [[nodiscard]] BatchEnv& inner() { return *inner_; }
  [[nodiscard]] const BatchEnv& inner() const { return *inner_; }
  EnvSpecs& changed_specs() { return specs_; }

 private:
  std::unique_ptr<BatchEnv> inner_;
  EnvSpecs specs_;
};

}  // namespace rl

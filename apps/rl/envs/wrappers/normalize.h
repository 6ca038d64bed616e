// Observations and rewards brought to mean 0 and variance 1, and to variance 1, by running moments, as Gymnasium's and
// Stable-Baselines3's wrappers do.
//
// Several runners learn the moments together: each normalizes by what all had seen at the last sync and by what it has
// seen itself since; take_delta() gives the latter, which whoever trains merges in the order of the runners, and
// sync() brings the sum back.
//
//   learning: base ⊕ own --take_delta--> merged by the trainer --sync(base)--> own is empty again
//   frozen (evaluation): base, and nothing is learned
//
// One thread at a time.
//
// Invariants
//   NRM-1  Every observation that a reset or step gives is counted once; final observations are normalized and not
//          counted (Stable-Baselines3).
//   NRM-2  A frozen wrapper's moments do not change.
//   NRM-3  A reward is divided by the deviation of the discounted return of its environment, which begins anew with
//          each episode; its mean stays.
//   NRM-4  An observation or reward that is not finite is an InvalidArgumentError that names the environment.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "apps/rl/algorithms/running_moments.h"
#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

struct NormalizeOptions {
  double epsilon = 1e-8;  // beside the variance
  double clip = 10;       // of what comes out
  double gamma = 0.99;    // of the discounted return; rewards only
  bool frozen = false;
};

/// Moments that several runners learn together.
class SharedMoments {
 public:
  explicit SharedMoments(std::size_t columns) : base_(RunningMoments::with_prior(columns)), own_(columns) {}

  template <class T> bool add(std::span<const T> rows) { return own_.add(rows) && (update(), true); }
  [[nodiscard]] RunningMoments take_delta() { return std::exchange(own_, RunningMoments(own_.columns())); }
  void sync(RunningMoments base) {
    base_ = std::move(base);
    update();
  }
  [[nodiscard]] const RunningMoments& base() const { return base_; }
  void visit(StateVisitor& visitor) {
    for (const auto& [name, moments] : {std::pair<const char*, RunningMoments*>{"base", &base_}, {"own", &own_}}) {
      std::vector<double> saved = moments->save();
      visitor.numbers(name, saved);
      if (visitor.mode() == StateVisitor::Mode::kRestore) *moments = RunningMoments::restore(saved);
    }
    visitor.one("seen_any", seen_any_);
    if (visitor.mode() == StateVisitor::Mode::kRestore && seen_any_) update();
  }
  /// base and what was seen here since.
  [[nodiscard]] const RunningMoments& now() const { return seen_any_ ? now_ : base_; }

 private:
  void update() {
    now_ = base_;
    now_.merge(own_);
    seen_any_ = true;
  }

  RunningMoments base_, own_, now_;
  bool seen_any_ = false;
};

/// Of one row of float32 numbers.
class NormalizeObservation final : public EnvWrapper {
 public:
  /// InvalidArgumentError for other observations.
  static troupe::Result<std::unique_ptr<NormalizeObservation>> make(std::unique_ptr<BatchEnv> inner,
                                                                    const NormalizeOptions& options);

  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  bool visit(StateVisitor& visitor) override {
    StateVisitor inside = visitor.inside("moments");
    moments_.visit(inside);
    return EnvWrapper::visit(visitor);
  }

  SharedMoments& moments() { return moments_; }

 private:
  NormalizeObservation(std::unique_ptr<BatchEnv> inner, const NormalizeOptions& options);
  void learn(std::span<const float> rows);
  void normalize(std::span<float> rows) const;

  NormalizeOptions options_;
  SharedMoments moments_;
  std::vector<float> final_obs_;
};

class NormalizeReward final : public EnvWrapper {
 public:
  NormalizeReward(std::unique_ptr<BatchEnv> inner, const NormalizeOptions& options);

  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void step(ConstRows actions, const StepOut& out) override;
  bool visit(StateVisitor& visitor) override {
    StateVisitor inside = visitor.inside("moments");
    moments_.visit(inside);
    visitor.numbers("returns", returns_);
    return EnvWrapper::visit(visitor);
  }

  SharedMoments& moments() { return moments_; }

 private:
  NormalizeOptions options_;
  SharedMoments moments_;
  std::vector<double> returns_;
};

}  // namespace rl

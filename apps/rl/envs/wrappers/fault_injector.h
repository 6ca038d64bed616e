// FaultInjector: environments that fault on purpose, for tests of whatever must survive it.
//
//   throw:CartPole-v1 {"p": 0.001}                 a step breaks its episode off, as an error from it would (BE-7)
//   exit:CartPole-v1 {"p": 0.001}                  the process that steps it ends, with code 70
//   stall:CartPole-v1 {"p": 0.001, "seconds": 1}   the step takes so much longer
//   throw:stall:gym:LunarLander-v3 {...}           several at once; of "gym:", inside of its Python process
//
// "p" is the probability of a step of one environment, for each kind that is named; all other arguments are the
// environment's. Environments of ours are stepped by SyncVectorEnv then: exact, not fast. Where a policy is evaluated
// nothing faults on purpose (BatchEnvOptions::leave_out_faults).
//
// One thread at a time, as what is inside.
//
//   FIN-1  Which steps fault depends on the environment's seed and nothing else: neither on the other environments nor
//          on the actions.
//   FIN-2  A step that "throws" is taken back: what it gave, and its episode's end, are not shown.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/wrappers/env_wrapper.h"

namespace rl {

inline constexpr std::string_view kFaultPrefixes[] = {"throw:", "exit:", "stall:"};

/// What an exit and a stall are.
struct FaultDeeds {
  std::function<void()> exit;
  std::function<void(std::chrono::milliseconds)> stall;
};
/// Those that are meant: _exit(70), and a wait.
[[nodiscard]] FaultDeeds real_faults();

class FaultInjector final : public EnvWrapper {
 public:
  /// InvalidArgumentError when the rates are no probabilities of exclusive events. What is inside can reset_one.
  static troupe::Result<std::unique_ptr<FaultInjector>> make(std::unique_ptr<BatchEnv> inner, const FaultRates& rates,
                                                             FaultDeeds deeds = real_faults());

  void reset(std::span<const std::uint64_t> seeds) override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  [[nodiscard]] std::span<const Fault> faults() const override { return faults_; }
  bool visit(StateVisitor& visitor) override {
    for (std::size_t i = 0; i < episodes_.size(); ++i) {
      StateVisitor inside = visitor.inside(std::to_string(i));
      inside.one("rewards", episodes_[i].rewards), inside.one("steps", episodes_[i].steps);
      inside.generator("draws", draws_[i]);
    }
    return EnvWrapper::visit(visitor);
  }

 private:
  FaultInjector(std::unique_ptr<BatchEnv> inner, const FaultRates& rates, FaultDeeds deeds);
  void take_back(std::size_t env, const StepOut& out);
  void drop_end(std::size_t env);

  FaultRates rates_;
  FaultDeeds deeds_;
  std::vector<Generator> draws_;
  struct Sum {
    double rewards = 0;
    std::int64_t steps = 0;
  };
  std::vector<Sum> episodes_;
  OwnedRows obs_;  // for observe() of all
  std::vector<Fault> faults_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  OwnedRows final_obs_;
  std::vector<std::uint8_t> final_mask_;  // of final_obs_
};

/// The factory of the three prefixes: `prefix` and all that follow in `rest`.
[[nodiscard]] troupe::Result<std::unique_ptr<BatchEnv>> make_faulty(std::string_view prefix, std::string_view rest,
                                                                    const BatchEnvOptions& options);

}  // namespace rl

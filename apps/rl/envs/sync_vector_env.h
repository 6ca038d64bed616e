// SyncVectorEnv: any environment of env.h, n of them, stepped one after the other (Gymnasium's name for it).
//
// One thread at a time. Promises: BE-1 to BE-7 of batch_env.h.
//
//   SVE-1  An exception from an environment's step costs that episode (BE-7); one from the first step of an episode
//          goes to the caller: an environment that always throws ends training instead of beginning anew for ever.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/env.h"
#include "apps/rl/envs/env_registry.h"

namespace rl {

class SyncVectorEnv final : public BatchEnv {
 public:
  /// `id`: of make_env.
  static troupe::Result<std::unique_ptr<SyncVectorEnv>> make(std::string_view id, const BatchEnvOptions& options);
  /// Of any environments of one kind, at least one; options.num_envs is theirs.
  static troupe::Result<std::unique_ptr<SyncVectorEnv>> make(std::vector<std::unique_ptr<Env>> envs,
                                                             const BatchEnvOptions& options);

  [[nodiscard]] const EnvSpecs& specs() const override { return specs_; }
  [[nodiscard]] std::size_t size() const override { return slots_.size(); }
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  [[nodiscard]] std::span<const Fault> faults() const override { return faults_; }

  [[nodiscard]] const Env& env(std::size_t index) const { return *slots_[index].env; }

 private:
  struct Slot {
    std::unique_ptr<Env> env;
    Generator generator;
    std::int64_t steps = 0;
    double episode_return = 0;
    bool ended = false;
  };
  SyncVectorEnv(std::vector<Slot> slots, const BatchEnvOptions& options);
  [[nodiscard]] Action action_of(ConstRows actions, std::size_t index) const;
  void begin_episode(Slot& slot);
  void step_slot(std::size_t index, Action action, const StepOut& out);
  void broke_off(std::size_t index, std::string what, const StepOut& out);
  void episode_ended(std::size_t index);

  std::vector<Slot> slots_;
  AutoReset auto_reset_;
  int max_episode_steps_;
  EnvSpecs specs_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  OwnedRows final_obs_;  // of those in ended_, in their order
  std::vector<Fault> faults_;
};

/// The spaces of one of our environments.
[[nodiscard]] EnvSpecs specs_of(const EnvSpec& spec);

}  // namespace rl

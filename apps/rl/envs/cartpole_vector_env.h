// CartPoleVectorEnv: CartPole by cartpole_batch.h, many at once. Its trajectories are those of SyncVectorEnv, bit for
// bit on Isa::kReference (CPB-1).
//
// One thread at a time. Promises: BE-1 to BE-6 of batch_env.h, but for kDisabled, which it refuses: a pole that fell
// is out of the reach of its sine (CPB-2).
#pragma once

#include <memory>
#include <vector>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/cartpole_batch.h"
#include "apps/rl/envs/env_registry.h"

namespace rl {

class CartPoleVectorEnv final : public BatchEnv {
 public:
  static troupe::Result<std::unique_ptr<CartPoleVectorEnv>> make(const BatchEnvOptions& options);

  [[nodiscard]] const EnvSpecs& specs() const override { return specs_; }
  [[nodiscard]] std::size_t size() const override { return batch_.size(); }
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;

 private:
  explicit CartPoleVectorEnv(const BatchEnvOptions& options);

  AutoReset auto_reset_;
  EnvSpecs specs_;
  CartPoleBatch batch_;
  std::vector<std::uint8_t> pushes_;
  std::vector<std::uint8_t> ended_before_;  // kNextStep: this step begins their next episode
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  OwnedRows final_obs_;
};

}  // namespace rl

// ConcatEnv: several batches as one, in their order: what wrappers for one environment alone (atari.h) are put into.
//
// One thread at a time. Promises: BE-1 to BE-7 of batch_env.h, as its parts do. Masks and lives are shown when all
// parts have them.
#pragma once

#include <memory>
#include <vector>

#include "apps/rl/envs/batch_env.h"

namespace rl {

class ConcatEnv final : public BatchEnv {
 public:
  /// InvalidArgumentError: there are none, or their spaces differ.
  static troupe::Result<std::unique_ptr<ConcatEnv>> make(std::vector<std::unique_ptr<BatchEnv>> parts);

  [[nodiscard]] const EnvSpecs& specs() const override { return parts_.front()->specs(); }
  [[nodiscard]] std::size_t size() const override { return first_.back(); }
  void reset(std::span<const std::uint64_t> seeds) override;
  void reset_one(std::size_t env) override;
  void observe(Rows obs) const override;
  void step(ConstRows actions, const StepOut& out) override;
  [[nodiscard]] EpisodeEnds ends() const override;
  [[nodiscard]] std::span<const std::uint8_t> action_mask() const override;
  [[nodiscard]] std::span<const std::int32_t> lives() const override;
  [[nodiscard]] std::span<const Fault> faults() const override { return faults_; }

 private:
  explicit ConcatEnv(std::vector<std::unique_ptr<BatchEnv>> parts);
  void add_ends(std::size_t part);

  std::vector<std::unique_ptr<BatchEnv>> parts_;
  std::vector<std::size_t> first_;  // of each part; and the number of all
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
  std::vector<std::int64_t> lengths_;
  std::vector<Fault> faults_;
  OwnedRows final_obs_;
  std::size_t final_rows_ = 0;
  std::vector<std::uint8_t> final_masks_;   // of final_obs_
  mutable std::vector<std::uint8_t> masks_;  // what the last call of action_mask() or lives() showed
  mutable std::vector<std::int32_t> lives_;
};

}  // namespace rl

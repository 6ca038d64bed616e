// Gaussian: independent normal numbers; their actions have no bounds (ClipAction brings them within those of the
// environment). Promises: DIS-1 to DIS-4 of distribution.h.
#pragma once

#include "apps/rl/policies/distribution.h"

namespace rl {

class Gaussian final : public Distribution {
 public:
  explicit Gaussian(std::size_t dimensions) : dimensions_(dimensions) {}

  [[nodiscard]] std::size_t parameters() const override { return 2 * dimensions_; }
  void sample(const Batch& batch, Generator& generator, Rows actions, std::span<float> log_prob) const override;
  void mode(const Batch& batch, Rows actions) const override;
  void evaluate(const Batch& batch, ConstRows actions, std::span<float> log_prob,
                std::span<float> entropy) const override;
  void backward(const Batch& batch, ConstRows actions, std::span<const float> d_log_prob,
                std::span<const float> d_entropy, std::span<float> d_params) const override;

 private:
  [[nodiscard]] std::size_t rows(const Batch& batch) const;

  std::size_t dimensions_;
};

}  // namespace rl

// Gaussian: independent normal numbers; their actions have no bounds (ClipAction brings them within those of the
// environment). Promises: DIS-1 to DIS-5 of distribution.h.
#pragma once

#include "apps/rl/policies/distribution.h"

namespace rl {

template <class T>
class Gaussian final : public Distribution<T> {
 public:
  using Batch = typename Distribution<T>::Batch;

  explicit Gaussian(std::size_t dimensions) : dimensions_(dimensions) {}

  [[nodiscard]] std::size_t parameters() const override { return 2 * dimensions_; }
  void sample(const Batch& batch, Generator& generator, Rows actions, std::span<T> log_prob) override;
  void mode(const Batch& batch, Rows actions) override;
  void evaluate(const Batch& batch, ConstRows actions, std::span<T> log_prob,
                std::span<T> entropy) override;
  void backward(const Batch& batch, ConstRows actions, std::span<const T> d_log_prob,
                std::span<const T> d_entropy, std::span<T> d_params) override;

 private:
  [[nodiscard]] std::size_t rows(const Batch& batch) const;

  std::size_t dimensions_;
};

}  // namespace rl

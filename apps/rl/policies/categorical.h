// MultiCategorical: a choice in each of several dimensions, independently; with one dimension the categorical
// distribution. Promises: DIS-1 to DIS-4 of distribution.h.
#pragma once

#include <vector>

#include "apps/rl/policies/distribution.h"

namespace rl {

class MultiCategorical final : public Distribution {
 public:
  explicit MultiCategorical(MultiDiscrete space);

  [[nodiscard]] std::size_t parameters() const override { return parameters_; }
  void sample(const Batch& batch, Generator& generator, Rows actions, std::span<float> log_prob) const override;
  void mode(const Batch& batch, Rows actions) const override;
  void evaluate(const Batch& batch, ConstRows actions, std::span<float> log_prob,
                std::span<float> entropy) const override;
  void backward(const Batch& batch, ConstRows actions, std::span<const float> d_log_prob,
                std::span<const float> d_entropy, std::span<float> d_params) const override;

 private:
  [[nodiscard]] std::size_t rows(const Batch& batch) const { return batch.params.size() / parameters_; }
  template <class Visit> void each_choice(const Batch& batch, Visit visit) const;
  [[nodiscard]] std::size_t index_of(ConstRows actions, std::size_t row, std::size_t dimension) const;

  MultiDiscrete space_;  // with a start for each
  std::size_t parameters_ = 0, most_ = 0;
};

}  // namespace rl

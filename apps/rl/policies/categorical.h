// MultiCategorical: a choice in each of several dimensions, independently; with one dimension the categorical
// distribution. Promises: DIS-1 to DIS-5 of distribution.h.
#pragma once

#include <vector>

#include "apps/rl/policies/distribution.h"

namespace rl {

template <class T>
class MultiCategorical final : public Distribution<T> {
 public:
  using Batch = typename Distribution<T>::Batch;

  explicit MultiCategorical(MultiDiscrete space);

  [[nodiscard]] std::size_t parameters() const override { return parameters_; }
  void sample(const Batch& batch, Generator& generator, Rows actions, std::span<T> log_prob) override;
  void mode(const Batch& batch, Rows actions) override;
  void evaluate(const Batch& batch, ConstRows actions, std::span<T> log_prob, std::span<T> entropy) override;
  void backward(const Batch& batch, ConstRows actions, std::span<const T> d_log_prob, std::span<const T> d_entropy,
                std::span<T> d_params) override;

 private:
  [[nodiscard]] std::size_t rows(const Batch& batch) const { return batch.params.size() / parameters_; }
  template <class Visit> void each_choice(std::size_t rows, Visit visit) const;
  void normalize(const Batch& batch);
  [[nodiscard]] std::size_t index_of(std::int64_t action, std::size_t row, std::size_t dimension) const;

  MultiDiscrete space_;  // with a start for each
  std::size_t parameters_ = 0;
  std::vector<T> log_probs_;  // [B][parameters]; a choice that is masked has -infinity
  std::vector<T> entropies_;  // [B][dimensions]
};

}  // namespace rl

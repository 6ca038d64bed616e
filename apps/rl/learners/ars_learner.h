// ArsLearner: augmented random search (algorithms/ars.h). It needs no gradient: a batch is the returns of policies that
// were perturbed along directions, which everyone draws from their names.
//
// Only the networks of the policy are searched: the trunk, where there is one, and the policy's own. A policy without
// hidden layers begins at zero, as in the paper; one with hidden layers as initialize() says.
//
// Its metrics: "return_deviation" (of the returns that counted), "best_return", "step_norm" (of the change).
//
// Promises: LRN-1 to LRN-3 of learner.h. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/rl/learners/learner.h"
#include "apps/rl/policies/policy_spec.h"

namespace rl {

struct ArsOptions {
  PolicySpec policy = {};
  double learning_rate = 0.02;
  std::size_t directions = 8;  // of each update
  std::size_t top = 8;         // that count
  std::uint64_t seed = 1;      // of the directions, and of the first parameters where there are hidden layers
};

/// How many of the policy's parameters are searched: so many from the first.
[[nodiscard]] std::size_t searched_parameters(const PolicySpec& policy);

class ArsLearner final : public Learner {
 public:
  /// Throws what check_policy says of its policy.
  explicit ArsLearner(const ArsOptions& options);

  [[nodiscard]] std::span<const float> params() const override { return params_; }
  /// InvalidArgumentError, thrown, when a direction is missing, or is there twice, or a return is not finite.
  UpdateReport update(std::span<const SampleView> batches) override;
  [[nodiscard]] StateDict save() const override;
  void restore(const StateDict& state) override;

 private:
  ArsOptions options_;
  std::vector<float> params_;
  std::int64_t updates_ = 0;
};

}  // namespace rl

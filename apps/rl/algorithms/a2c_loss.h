// The loss of advantage actor-critic over a batch, and its derivatives with respect to log-probabilities, entropies and
// values. Pure; arrays are [B]; T is float or double. Sums are taken in double.
//
// A2L-1  loss = mean(-A log_prob) - entropy_coefficient mean(entropy) + value_coefficient mean((V - R)^2); advantages
//        and returns are held fixed.
// A2L-2  Normalized advantages have mean 0 and, over their unbiased deviation + 1e-8, deviation 1; of one sample they
//        are as they are.
#pragma once

#include <span>
#include <vector>

namespace rl {

struct A2cLossOptions {
  double value_coefficient = 0.5;
  double entropy_coefficient = 0;
  bool normalize_advantage = false;
};

struct A2cScalars {
  double policy_loss = 0, value_loss = 0, entropy = 0, total_loss = 0;
};

template <class T>
A2cScalars a2c_loss(std::span<const T> advantage, std::span<const T> returns, std::span<const T> log_prob,
                    std::span<const T> entropy, std::span<const T> value, const A2cLossOptions& options,
                    std::span<T> d_log_prob, std::span<T> d_entropy, std::span<T> d_value);

}  // namespace rl

#include "apps/rl/algorithms/a2c_loss.h"

#include <cmath>
#include <cstddef>

namespace rl {

template <class T>
A2cScalars a2c_loss(std::span<const T> advantage, std::span<const T> returns, std::span<const T> log_prob,
                    std::span<const T> entropy, std::span<const T> value, const A2cLossOptions& options,
                    std::span<T> d_log_prob, std::span<T> d_entropy, std::span<T> d_value) {
  const std::size_t rows = advantage.size();
  const auto count = static_cast<double>(rows);
  double mean = 0, over_deviation = 1;
  if (options.normalize_advantage && rows > 1) {
    for (const T a : advantage) mean += static_cast<double>(a) / count;
    double squares = 0;
    for (const T a : advantage) squares += (static_cast<double>(a) - mean) * (static_cast<double>(a) - mean);
    over_deviation = 1 / (std::sqrt(squares / (count - 1)) + 1e-8);
  }
  A2cScalars out;
  for (std::size_t i = 0; i < rows; ++i) {
    const double weight = (static_cast<double>(advantage[i]) - mean) * over_deviation;
    const double error = static_cast<double>(value[i]) - static_cast<double>(returns[i]);
    out.policy_loss -= weight * static_cast<double>(log_prob[i]) / count;
    out.value_loss += error * error / count;
    out.entropy += static_cast<double>(entropy[i]) / count;
    d_log_prob[i] = static_cast<T>(-weight / count);
    d_entropy[i] = static_cast<T>(-options.entropy_coefficient / count);
    d_value[i] = static_cast<T>(2 * options.value_coefficient * error / count);
  }
  out.total_loss = out.policy_loss - options.entropy_coefficient * out.entropy +
                   options.value_coefficient * out.value_loss;
  return out;
}

template A2cScalars a2c_loss<float>(std::span<const float>, std::span<const float>, std::span<const float>,
                                    std::span<const float>, std::span<const float>, const A2cLossOptions&,
                                    std::span<float>, std::span<float>, std::span<float>);
template A2cScalars a2c_loss<double>(std::span<const double>, std::span<const double>, std::span<const double>,
                                     std::span<const double>, std::span<const double>, const A2cLossOptions&,
                                     std::span<double>, std::span<double>, std::span<double>);

}  // namespace rl

#include "apps/rl/policies/gaussian.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rl {
namespace {

const double kHalfLogTwoPi = 0.5 * std::log(2 * std::numbers::pi);

double log_density(double noise, double log_std) { return -0.5 * noise * noise - log_std - kHalfLogTwoPi; }

}  // namespace

template <class T>
std::size_t Gaussian<T>::rows(const Batch& batch) const {
  if (!batch.mask.empty()) troupe::InvalidArgumentError("numbers cannot be masked").raise();  // DIS-3
  return batch.params.size() / parameters();
}

template <class T>
void Gaussian<T>::sample(const Batch& batch, Generator& generator, Rows actions, std::span<T> log_prob) {
  const std::span<float> out = actions.as<float>();
  for (std::size_t row = 0; row < rows(batch); ++row) {
    double sum = 0;
    for (std::size_t k = 0; k < dimensions_; ++k) {
      const auto mean = static_cast<double>(batch.params[row * parameters() + k]);
      const auto log_std = static_cast<double>(batch.params[row * parameters() + dimensions_ + k]);
      const double noise = standard_normal(generator);
      out[row * dimensions_ + k] = static_cast<float>(mean + std::exp(log_std) * noise);
      sum += log_density(noise, log_std);
    }
    log_prob[row] = static_cast<T>(sum);
  }
}

template <class T>
void Gaussian<T>::mode(const Batch& batch, Rows actions) {
  const std::span<float> out = actions.as<float>();
  for (std::size_t row = 0; row < rows(batch); ++row)
    for (std::size_t k = 0; k < dimensions_; ++k)
      out[row * dimensions_ + k] = static_cast<float>(batch.params[row * parameters() + k]);
}

template <class T>
void Gaussian<T>::evaluate(const Batch& batch, ConstRows actions, std::span<T> log_prob,
                        std::span<T> entropy) {
  const std::span<const float> taken = actions.as<float>();
  for (std::size_t row = 0; row < rows(batch); ++row) {
    double log_sum = 0, entropy_sum = 0;
    for (std::size_t k = 0; k < dimensions_; ++k) {
      const auto mean = static_cast<double>(batch.params[row * parameters() + k]);
      const auto log_std = static_cast<double>(batch.params[row * parameters() + dimensions_ + k]);
      log_sum += log_density((static_cast<double>(taken[row * dimensions_ + k]) - mean) / std::exp(log_std), log_std);
      entropy_sum += log_std + kHalfLogTwoPi + 0.5;
    }
    log_prob[row] = static_cast<T>(log_sum);
    entropy[row] = static_cast<T>(entropy_sum);
  }
}

template <class T>
void Gaussian<T>::backward(const Batch& batch, ConstRows actions, std::span<const T> d_log_prob,
                        std::span<const T> d_entropy, std::span<T> d_params) {
  const std::span<const float> taken = actions.as<float>();
  for (std::size_t row = 0; row < rows(batch); ++row) {
    for (std::size_t k = 0; k < dimensions_; ++k) {
      const std::size_t mean_at = row * parameters() + k, std_at = mean_at + dimensions_;
      const double deviation = std::exp(static_cast<double>(batch.params[std_at]));
      const double noise = (static_cast<double>(taken[row * dimensions_ + k]) -
                            static_cast<double>(batch.params[mean_at])) /
                           deviation;
      d_params[mean_at] = static_cast<T>(static_cast<double>(d_log_prob[row]) * noise / deviation);
      d_params[std_at] = static_cast<T>(static_cast<double>(d_log_prob[row]) * (noise * noise - 1) +
                                       static_cast<double>(d_entropy[row]));
    }
  }
}

template class Gaussian<float>;
template class Gaussian<double>;

}  // namespace rl

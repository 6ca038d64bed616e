#include "apps/rl/algorithms/ppo_loss.h"

#include <algorithm>
#include <cmath>

namespace rl {
namespace {

struct ValueTerms {
  double squared, squared_clipped, gradient;  // gradient of the chosen form, before coefficient and mean
};

ValueTerms value_terms(double value, double old_value, double target, const PpoLossOptions& options) {
  const double error = value - target;
  const double moved = value - old_value;
  const double clipped_error = old_value + std::clamp(moved, -options.clip, options.clip) - target;
  const double squared = error * error;
  const double squared_clipped = std::max(squared, clipped_error * clipped_error);
  if (options.value_loss == ValueLoss::kFullUnclipped) return {squared, squared_clipped, 2 * error};
  const bool plain_wins = squared >= clipped_error * clipped_error;
  const bool inside = std::abs(moved) <= options.clip;
  return {squared, squared_clipped, plain_wins ? error : inside ? clipped_error : 0.0};
}

}  // namespace

template <class T>
PpoWhole whole_minibatch(std::span<const T> advantage) {
  const auto count = static_cast<double>(advantage.size());
  double sum = 0;
  for (T v : advantage) sum += static_cast<double>(v);
  const double mean = sum / count;
  double squares = 0;
  for (T v : advantage) squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  return {.rows = advantage.size(),
          .mean = mean,
          .deviation = advantage.size() > 1 ? std::sqrt(squares / (count - 1)) : 0.0};
}

template <class T>
PpoScalars ppo_loss(const PpoMinibatch<T>& batch, const PpoEvaluation<T>& now, const PpoLossOptions& options,
                    const PpoGradients<T>& gradients, PpoPerSample<T>& samples) {
  const std::size_t count = now.value.size();
  for (auto* column : {&samples.ratio, &samples.normalized_advantage}) column->resize(count);
  const PpoWhole whole = batch.whole ? *batch.whole : whole_minibatch(batch.advantage);
  for (std::size_t i = 0; i < count; ++i)
    samples.normalized_advantage[i] = static_cast<T>((static_cast<double>(batch.advantage[i]) - whole.mean) /
                                                     (whole.deviation + options.advantage_epsilon));
  const T low = static_cast<T>(1 - options.clip);
  const T high = static_cast<T>(1 + options.clip);
  const T share = T{1} / static_cast<T>(whole.rows);
  const T entropy_share = static_cast<T>(options.entropy_coefficient) * share;
  const double value_share = options.value_coefficient / static_cast<double>(whole.rows);

  PpoScalars sums;
  for (std::size_t i = 0; i < count; ++i) {
    const T log_ratio = now.log_prob[i] - batch.old_log_prob[i];
    const T ratio = std::exp(log_ratio);
    const T advantage = samples.normalized_advantage[i];
    const T plain = -advantage * ratio;
    const T clipped = -advantage * std::clamp(ratio, low, high);
    // Only the unclipped branch depends on the ratio outside the clip range.
    gradients.log_prob[i] = plain >= clipped ? plain * share : T{0};
    gradients.entropy[i] = -entropy_share;
    const ValueTerms terms = value_terms(static_cast<double>(now.value[i]), static_cast<double>(batch.old_value[i]),
                                         static_cast<double>(batch.returns[i]), options);
    gradients.value[i] = static_cast<T>(value_share * terms.gradient);

    samples.ratio[i] = ratio;
    sums.policy_loss += static_cast<double>(std::max(plain, clipped));
    sums.entropy += static_cast<double>(now.entropy[i]);
    sums.value_mse += terms.squared;
    sums.value_mse_clipped += terms.squared_clipped;
    sums.approx_kl_k1 -= static_cast<double>(log_ratio);
    sums.approx_kl_k3 += static_cast<double>(ratio - T{1} - log_ratio);
    sums.clip_fraction += std::abs(static_cast<double>(ratio) - 1) > options.clip ? 1.0 : 0.0;
  }
  for (double* sum : {&sums.policy_loss, &sums.entropy, &sums.value_mse, &sums.value_mse_clipped, &sums.approx_kl_k1,
                      &sums.approx_kl_k3, &sums.clip_fraction}) {
    *sum /= static_cast<double>(whole.rows);
  }
  const double value_loss =
      options.value_loss == ValueLoss::kFullUnclipped ? sums.value_mse : 0.5 * sums.value_mse_clipped;
  sums.total_loss =
      sums.policy_loss - options.entropy_coefficient * sums.entropy + options.value_coefficient * value_loss;
  return sums;
}

template <class T>
double explained_variance(std::span<const T> value, std::span<const T> returns) {
  const auto count = static_cast<double>(returns.size());
  double mean_return = 0, mean_error = 0;
  for (std::size_t i = 0; i < returns.size(); ++i) {
    mean_return += static_cast<double>(returns[i]) / count;
    mean_error += static_cast<double>(returns[i] - value[i]) / count;
  }
  double return_squares = 0, error_squares = 0;
  for (std::size_t i = 0; i < returns.size(); ++i) {
    const double r = static_cast<double>(returns[i]) - mean_return;
    const double e = static_cast<double>(returns[i] - value[i]) - mean_error;
    return_squares += r * r;
    error_squares += e * e;
  }
  return return_squares > 0 ? 1 - error_squares / return_squares : 0.0;
}

template PpoWhole whole_minibatch<float>(std::span<const float>);
template PpoWhole whole_minibatch<double>(std::span<const double>);
template PpoScalars ppo_loss<float>(const PpoMinibatch<float>&, const PpoEvaluation<float>&, const PpoLossOptions&,
                                    const PpoGradients<float>&, PpoPerSample<float>&);
template PpoScalars ppo_loss<double>(const PpoMinibatch<double>&, const PpoEvaluation<double>&, const PpoLossOptions&,
                                     const PpoGradients<double>&, PpoPerSample<double>&);
template double explained_variance<float>(std::span<const float>, std::span<const float>);
template double explained_variance<double>(std::span<const double>, std::span<const double>);

}  // namespace rl

#include "apps/rl/algorithms/sac.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace rl {
namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

template <class F>
double mean(std::size_t count, F term) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += term(i);
  return sum / static_cast<double>(count);
}

}  // namespace

SquashedSample squashed_gaussian(double mean, double log_std, double noise) {
  SquashedSample out{};
  out.log_std = std::clamp(log_std, kSacLogStdMin, kSacLogStdMax);
  out.pre_tanh = mean + std::exp(out.log_std) * noise;
  out.action = std::tanh(out.pre_tanh);
  out.gaussian_log_prob = -0.5 * noise * noise - out.log_std - 0.5 * std::log(2 * std::numbers::pi);
  out.tanh_correction = 2 * (std::numbers::ln2 - out.pre_tanh - softplus(-2 * out.pre_tanh));
  return out;
}

double sac_target(const SacTargetInput& in, double gamma, double alpha) {
  if (in.terminated) return in.reward;
  return in.reward + gamma * (std::min(in.q1_target_next, in.q2_target_next) - alpha * in.next_log_prob);
}

double sac_critic_loss(std::span<const double> q1, std::span<const double> q2, std::span<const double> target) {
  const auto squared = [](double e) { return e * e; };
  return mean(target.size(), [&](std::size_t i) { return squared(q1[i] - target[i]); }) +
         mean(target.size(), [&](std::size_t i) { return squared(q2[i] - target[i]); });
}

double sac_actor_loss(std::span<const double> log_prob, std::span<const double> q1, std::span<const double> q2,
                      double alpha) {
  return mean(log_prob.size(), [&](std::size_t i) { return alpha * log_prob[i] - std::min(q1[i], q2[i]); });
}

double sac_temperature_gradient(std::span<const double> log_prob, double target_entropy) {
  return -mean(log_prob.size(), [&](std::size_t i) { return log_prob[i] + target_entropy; });
}

double sac_temperature_loss(std::span<const double> log_prob, double log_alpha, double target_entropy) {
  return log_alpha * sac_temperature_gradient(log_prob, target_entropy);
}

}  // namespace rl

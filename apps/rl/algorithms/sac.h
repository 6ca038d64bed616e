// The formulas of soft actor-critic: squashed Gaussian, twin-Q target, losses. Pure; double throughout.
//
// SAC-1  The Gaussian term comes from the noise, not from (u - mean) / std, which cancels when std is tiny.
// SAC-2  log(1 - tanh(u)^2) is 2 (log 2 - u - softplus(-2u)), exact also where tanh is 1.
// SAC-3  A truncated step bootstraps; a terminated one does not.
#pragma once

#include <cstddef>
#include <span>

namespace rl {

inline constexpr double kSacLogStdMin = -20;
inline constexpr double kSacLogStdMax = 2;

struct SquashedSample {
  double log_std, pre_tanh, action;
  double gaussian_log_prob, tanh_correction;  // their difference is the log-probability of the action
};

/// One action dimension.
[[nodiscard]] SquashedSample squashed_gaussian(double mean, double log_std, double noise);

struct SacTargetInput {
  double reward;
  bool terminated;
  double q1_target_next, q2_target_next, next_log_prob;
};
[[nodiscard]] double sac_target(const SacTargetInput& in, double gamma, double alpha);

/// mean((q1 - target)^2) + mean((q2 - target)^2).
[[nodiscard]] double sac_critic_loss(std::span<const double> q1, std::span<const double> q2,
                                     std::span<const double> target);
/// mean(alpha * log_prob - min(q1, q2)).
[[nodiscard]] double sac_actor_loss(std::span<const double> log_prob, std::span<const double> q1,
                                    std::span<const double> q2, double alpha);
/// -mean(log_alpha * (log_prob + target_entropy)); its derivative for log_alpha is sac_temperature_gradient.
[[nodiscard]] double sac_temperature_loss(std::span<const double> log_prob, double log_alpha, double target_entropy);
[[nodiscard]] double sac_temperature_gradient(std::span<const double> log_prob, double target_entropy);

}  // namespace rl

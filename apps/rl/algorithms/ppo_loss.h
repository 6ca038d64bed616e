// The clipped PPO loss (Schulman et al., 2017), its derivatives with respect to log-probabilities, entropies and
// values, and its diagnostics. What the actions are is the distribution's business, whose backward goes on from here.
//
// Pure; arrays are [B].
//
// RPL-1  policy loss = mean max(-A r, -A clip(r, 1-c, 1+c)), with A normalized over the minibatch by its unbiased
//       deviation + eps.
// RPL-2  kHalfClipped: 0.5 * mean max((v-R)^2, (v_old + clip(v - v_old, -c, c) - R)^2), CleanRL's convention.
//       kFullUnclipped: mean (v-R)^2, Stable-Baselines3's.
// RPL-3  total = policy loss - entropy_coefficient * mean entropy + value_coefficient * value loss.
// RPL-4  Rows of a larger minibatch give their share of its sums: those of all parts together are the minibatch's.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace rl {

enum class ValueLoss { kHalfClipped, kFullUnclipped };

struct PpoLossOptions {
  double clip = 0.2;
  double value_coefficient = 0.5;
  double entropy_coefficient = 0.0;
  double advantage_epsilon = 1e-8;
  ValueLoss value_loss = ValueLoss::kFullUnclipped;
};

/// What rows have to know of the minibatch that they are a part of.
struct PpoWhole {
  std::size_t rows = 0;
  double mean = 0, deviation = 0;  // of its advantages; unbiased, 0 for one row
};
template <class T>
[[nodiscard]] PpoWhole whole_minibatch(std::span<const T> advantage);

template <class T>
struct PpoMinibatch {
  std::span<const T> old_log_prob, old_value, advantage, returns;
  std::optional<PpoWhole> whole = {};  // none: these are all of it
};

/// What the networks say now.
template <class T>
struct PpoEvaluation {
  std::span<const T> log_prob, entropy, value;
};

/// Derivatives of the total.
template <class T>
struct PpoGradients {
  std::span<T> log_prob, entropy, value;
};

/// Means over the minibatch; of a part, its share of them (RPL-4).
struct PpoScalars {
  double policy_loss = 0, entropy = 0, value_mse = 0, value_mse_clipped = 0;
  double approx_kl_k1 = 0, approx_kl_k3 = 0, clip_fraction = 0;
  double total_loss = 0;
};

/// What each sample contributed; the vectors are resized to the batch and can be reused.
template <class T>
struct PpoPerSample {
  std::vector<T> ratio, normalized_advantage;
};

template <class T>
PpoScalars ppo_loss(const PpoMinibatch<T>& batch, const PpoEvaluation<T>& now, const PpoLossOptions& options,
                    const PpoGradients<T>& gradients, PpoPerSample<T>& samples);

/// 1 - Var(returns - value) / Var(returns), population variances; 0 when the returns do not vary.
template <class T>
[[nodiscard]] double explained_variance(std::span<const T> value, std::span<const T> returns);

}  // namespace rl

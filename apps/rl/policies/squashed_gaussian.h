// SquashedGaussian: independent normal numbers, each pressed into (-1, 1) by tanh and then scaled to the bounds of a
// Box: the policy of soft actor-critic (Haarnoja et al., 2018). Means and logarithms of deviations both depend on the
// observation.
//
//   obs ─▶ network ─▶ mean, log_std ─▶ u = mean + exp(log_std) * noise ─▶ a = tanh(u) ─▶ low + (a + 1)/2 (high - low)
//
// A row of the network's outputs is d means, then d logarithms. Log-probabilities are those of a in (-1, 1): the
// constant of the bounds is left out, as Stable-Baselines3 does.
//
// With generalized state-dependent exploration the deviations come of networks/gsde_network.h; all else is the same.
//
// squash and squash_backward are pure; any thread. A SquashedGaussian: one thread at a time; parameters are the
// caller's.
//
// Invariants
//   SQG-1  log_std is clamped to [kSacLogStdMin, kSacLogStdMax]; its gradient is 0 outside.
//   SQG-2  squash_backward writes the derivative of sum(d_action * action + d_log_prob * log_prob) with respect to the
//          outputs, with the noise held fixed.
//   SQG-3  sample draws one normal number a dimension, in the order of the rows. Same parameters, observations and
//          generator, same actions.
//   SQG-4  Actions are within the bounds, rounding included.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/networks/gsde_network.h"
#include "apps/rl/networks/network.h"
#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"

namespace rl {

/// All that has to be known of the policy but its parameters. A plain value.
struct SquashedGaussianSpec {
  Space observation_space = {}, action_space = {};
  NetworkSpec network = {};

  [[nodiscard]] std::size_t dimensions() const { return elements_of(action_space); }
  friend bool operator==(const SquashedGaussianSpec&, const SquashedGaussianSpec&) = default;
};

struct SquashedGaussianOptions {
  std::vector<std::size_t> hidden = {256, 256};
  Activation activation = Activation::kRelu;
  std::optional<double> gsde_first_log_std = {};  // NetworkSpec's
};

/// InvalidArgumentError for an action space that is not a Box of float32 with finite bounds, or what check_network
/// says.
[[nodiscard]] troupe::Result<SquashedGaussianSpec> squashed_gaussian_for(const Space& observation_space,
                                                                         const Space& action_space,
                                                                         const SquashedGaussianOptions& options = {});
[[nodiscard]] troupe::Status check_squashed_gaussian(const SquashedGaussianSpec& spec);
[[nodiscard]] boost::json::value to_json(const SquashedGaussianSpec& spec);
/// InvalidArgumentError for what to_json does not give, or check_squashed_gaussian refuses.
[[nodiscard]] troupe::Result<SquashedGaussianSpec> squashed_gaussian_from_json(const boost::json::value& json);

/// outputs[B][2d] and noise[B][d] to action[B][d] in [-1, 1] and log_prob[B].
template <class T>
void squash(std::size_t dimensions, std::span<const T> outputs, std::span<const double> noise, std::span<T> action,
            std::span<double> log_prob);
/// SQG-2. `action`: what squash gave. d_action[B][d], d_log_prob the same for all rows.
template <class T>
void squash_backward(std::size_t dimensions, std::span<const T> outputs, std::span<const double> noise,
                     std::span<const T> action, std::span<const T> d_action, double d_log_prob,
                     std::span<T> d_outputs);

/// Between [-1, 1] and the bounds of a Box.
class ActionScale {
 public:
  explicit ActionScale(const Box& box);

  /// unit[B][d] to actions; both may be the same memory.
  void to_box(std::span<const float> unit, std::span<float> actions) const;
  void from_box(std::span<const float> actions, std::span<float> unit) const;

 private:
  std::vector<float> low_, high_;
};

/// What comes from somewhere else (algorithms/action_noise.h); [B][d], or empty.
struct GivenNoise {
  std::span<const double> normals = {};  // in place of the numbers that sample would draw
  std::span<const double> added = {};    // to the actions in [-1, 1], which are clipped then
  std::span<const double> eps = {};      // [B][d][units] for GSD-1, in place of normals
};

class SquashedGaussian {
 public:
  /// Throws what check_squashed_gaussian says.
  explicit SquashedGaussian(const SquashedGaussianSpec& spec, troupe::kernels::Isa isa = troupe::kernels::best_isa());

  /// Elements of the action space.
  void sample(std::span<const float> params, ConstRows obs, Generator& generator, Rows actions,
              const GivenNoise& given = {});
  /// tanh(mean).
  void mode(std::span<const float> params, ConstRows obs, Rows actions);

 private:
  void forward(std::span<const float> params, ConstRows obs);
  void take_noise(std::span<const float> params, Generator& generator, const GivenNoise& given);

  std::size_t dimensions_;
  ActionScale scale_;
  std::unique_ptr<Network<float>> net_;
  const GsdeNetwork<float>* gsde_ = nullptr;  // net_, when it is one
  ObservationEncoder encoder_;
  std::vector<float> encoded_, outputs_, unit_;
  std::vector<double> noise_, log_prob_;
};

}  // namespace rl

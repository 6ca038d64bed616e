// Distribution: what a policy's network says of an action, by the action space: a choice, several choices, or numbers.
// A row of parameters gives one distribution.
//
//   Discrete(n)        Categorical       n logits
//   MultiDiscrete      MultiCategorical  the logits of each dimension, one after the other
//   Box (float32)      Gaussian          d means, then d logarithms of deviations; dimensions are independent
//
// One thread at a time: evaluate keeps what backward needs. Rows are [B][...], row-major. Actions are of the space's
// type (int64, float32) and, where the space has a start, count from it. T is float or double (tests).
//
// Invariants
//   DIS-1  log_prob is the logarithm of the probability, or density, of the whole action; entropy that of all
//          dimensions together, in nats.
//   DIS-2  backward adds nothing: it writes the derivative of sum(d_log_prob * log_prob + d_entropy * entropy) with
//          respect to the parameters.
//   DIS-3  A choice that is masked has probability 0, adds nothing to the entropy, and its logit's derivative is 0. A
//          row that masks all choices of a dimension, and a mask for a Gaussian, is an InvalidArgumentError.
//   DIS-4  sample draws in the order of the rows, and of the dimensions inside: one uniform number a choice, one normal
//          a number. Same parameters and generator, same actions.
//   DIS-5  backward needs the evaluate just before it, with the same batch and actions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <troupe/result.h>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"

namespace rl {

template <class T>
class Distribution {
 public:
  struct Batch {
    std::span<const T> params;                // [B][parameters()]
    std::span<const std::uint8_t> mask = {};  // [B][choices of all dimensions], 1: allowed; empty: all are
  };

  virtual ~Distribution() = default;
  /// Numbers of a row.
  [[nodiscard]] virtual std::size_t parameters() const = 0;

  virtual void sample(const Batch& batch, Generator& generator, Rows actions, std::span<T> log_prob) = 0;
  /// The most probable action.
  virtual void mode(const Batch& batch, Rows actions) = 0;
  virtual void evaluate(const Batch& batch, ConstRows actions, std::span<T> log_prob, std::span<T> entropy) = 0;
  virtual void backward(const Batch& batch, ConstRows actions, std::span<const T> d_log_prob,
                        std::span<const T> d_entropy, std::span<T> d_params) = 0;
};

/// InvalidArgumentError for spaces that have none: a Box that is not float32.
template <class T>
[[nodiscard]] troupe::Result<std::unique_ptr<Distribution<T>>> make_distribution(const Space& action_space);

}  // namespace rl

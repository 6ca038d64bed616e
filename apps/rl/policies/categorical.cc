#include "apps/rl/policies/categorical.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

template <class T>
constexpr T kNever = -std::numeric_limits<T>::infinity();

/// Logits in, log-probabilities out; the entropy is returned. A masked one is -infinity.
template <class T>
T log_softmax(std::span<T> row) {
  const T largest = *std::max_element(row.begin(), row.end());
  T sum = 0;
  for (T v : row) sum += std::exp(v - largest);
  const T log_sum = std::log(sum) + largest;
  T entropy = 0;
  for (T& v : row) {
    v -= log_sum;
    if (v != kNever<T>) entropy -= std::exp(v) * v;
  }
  return entropy;
}

}  // namespace

template <class T>
MultiCategorical<T>::MultiCategorical(MultiDiscrete space) : space_(std::move(space)) {
  if (space_.start.empty()) space_.start.resize(space_.nvec.size());
  for (std::int64_t n : space_.nvec) parameters_ += static_cast<std::size_t>(n);
}

/// visit(row, dimension, first parameter, choices, number of the choice in [rows][dimensions]) for each choice in turn.
template <class T>
template <class Visit>
void MultiCategorical<T>::each_choice(std::size_t rows, Visit visit) const {
  std::size_t first = 0, at = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t dimension = 0; dimension < space_.nvec.size(); ++dimension, ++at) {
      const auto n = static_cast<std::size_t>(space_.nvec[dimension]);
      visit(row, dimension, first, n, at);
      first += n;
    }
  }
}

/// Fills log_probs_ and entropies_.
template <class T>
void MultiCategorical<T>::normalize(const Batch& batch) {
  log_probs_.assign(batch.params.begin(), batch.params.end());
  entropies_.resize(rows(batch) * space_.nvec.size());
  each_choice(rows(batch), [&](std::size_t row, std::size_t dimension, std::size_t first, std::size_t n,
                               std::size_t at) {
    const std::span<T> log_probs(log_probs_.data() + first, n);
    if (!batch.mask.empty()) {
      const std::span<const std::uint8_t> allowed = batch.mask.subspan(first, n);
      if (std::none_of(allowed.begin(), allowed.end(), [](std::uint8_t one) { return one != 0; }))  // DIS-3
        troupe::InvalidArgumentError(fmt::format("row {} masks all choices of dimension {}", row, dimension)).raise();
      for (std::size_t i = 0; i < n; ++i) {
        if (allowed[i] == 0) log_probs[i] = kNever<T>;
      }
    }
    entropies_[at] = log_softmax(log_probs);
  });
}

template <class T>
std::size_t MultiCategorical<T>::index_of(std::int64_t action, std::size_t row, std::size_t dimension) const {
  const std::int64_t index = action - space_.start[dimension];
  if (index < 0 || index >= space_.nvec[dimension])
    troupe::InvalidArgumentError(fmt::format("row {}: there is no action {}", row, action)).raise();
  return static_cast<std::size_t>(index);
}

template <class T>
void MultiCategorical<T>::sample(const Batch& batch, Generator& generator, Rows actions, std::span<T> log_prob) {
  const std::span<std::int64_t> out = actions.as<std::int64_t>();
  normalize(batch);
  each_choice(rows(batch), [&](std::size_t row, std::size_t dimension, std::size_t first, std::size_t n,
                               std::size_t at) {
    const std::span<const T> log_probs(log_probs_.data() + first, n);
    const double draw = generator.random();
    double passed = 0;
    std::size_t choice = n, possible = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (log_probs[i] == kNever<T>) continue;
      possible = i;  // the last one takes what rounding left over
      passed += static_cast<double>(std::exp(log_probs[i]));
      if (draw < passed) {
        choice = i;
        break;
      }
    }
    if (choice == n) choice = possible;
    out[at] = static_cast<std::int64_t>(choice) + space_.start[dimension];
    log_prob[row] = (dimension == 0 ? T{0} : log_prob[row]) + log_probs[choice];
  });
}

template <class T>
void MultiCategorical<T>::mode(const Batch& batch, Rows actions) {
  const std::span<std::int64_t> out = actions.as<std::int64_t>();
  normalize(batch);
  each_choice(rows(batch),
              [&](std::size_t, std::size_t dimension, std::size_t first, std::size_t n, std::size_t at) {
                const std::span<const T> log_probs(log_probs_.data() + first, n);
                const auto best = std::max_element(log_probs.begin(), log_probs.end()) - log_probs.begin();
                out[at] = best + space_.start[dimension];
              });
}

template <class T>
void MultiCategorical<T>::evaluate(const Batch& batch, ConstRows actions, std::span<T> log_prob,
                                   std::span<T> entropy) {
  const std::span<const std::int64_t> taken = actions.as<std::int64_t>();
  normalize(batch);
  each_choice(rows(batch),
              [&](std::size_t row, std::size_t dimension, std::size_t first, std::size_t, std::size_t at) {
                const T chosen = log_probs_[first + index_of(taken[at], row, dimension)];
                log_prob[row] = (dimension == 0 ? T{0} : log_prob[row]) + chosen;
                entropy[row] = (dimension == 0 ? T{0} : entropy[row]) + entropies_[at];
              });
}

template <class T>
void MultiCategorical<T>::backward(const Batch& batch, ConstRows actions, std::span<const T> d_log_prob,
                                   std::span<const T> d_entropy, std::span<T> d_params) {
  const std::span<const std::int64_t> taken = actions.as<std::int64_t>();
  each_choice(rows(batch), [&](std::size_t row, std::size_t dimension, std::size_t first, std::size_t n,
                               std::size_t at) {
    const std::size_t chosen = index_of(taken[at], row, dimension);
    for (std::size_t i = 0; i < n; ++i) {
      const T log_p = log_probs_[first + i];
      const T p = std::exp(log_p);  // 0 for a masked one
      const T of_entropy = p == T{0} ? T{0} : d_entropy[row] * p * (log_p + entropies_[at]);
      d_params[first + i] = d_log_prob[row] * ((i == chosen ? T{1} : T{0}) - p) - of_entropy;
    }
  });
}

template class MultiCategorical<float>;
template class MultiCategorical<double>;

}  // namespace rl

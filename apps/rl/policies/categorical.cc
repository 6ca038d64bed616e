#include "apps/rl/policies/categorical.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace rl {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Logits in, log-probabilities out; the entropy is returned. A masked one is -infinity.
float log_softmax(std::span<float> row) {
  const float largest = *std::max_element(row.begin(), row.end());
  float sum = 0;
  for (float v : row) sum += std::exp(v - largest);
  const float log_sum = std::log(sum) + largest;
  float entropy = 0;
  for (float& v : row) {
    v -= log_sum;
    if (v != kNever) entropy -= std::exp(v) * v;
  }
  return entropy;
}

}  // namespace

MultiCategorical::MultiCategorical(MultiDiscrete space) : space_(std::move(space)) {
  if (space_.start.empty()) space_.start.resize(space_.nvec.size());
  for (std::int64_t n : space_.nvec) {
    parameters_ += static_cast<std::size_t>(n);
    most_ = std::max(most_, static_cast<std::size_t>(n));
  }
}

/// visit(row, dimension, first parameter, log-probabilities, entropy) for each choice in turn.
template <class Visit>
void MultiCategorical::each_choice(const Batch& batch, Visit visit) const {
  std::vector<float> memory(most_);
  for (std::size_t row = 0; row < rows(batch); ++row) {
    std::size_t first = row * parameters_;
    for (std::size_t dimension = 0; dimension < space_.nvec.size(); ++dimension) {
      const auto n = static_cast<std::size_t>(space_.nvec[dimension]);
      const std::span<float> log_probs(memory.data(), n);
      std::copy_n(batch.params.begin() + static_cast<std::ptrdiff_t>(first), n, log_probs.begin());
      if (!batch.mask.empty()) {
        bool any = false;
        for (std::size_t i = 0; i < n; ++i) {
          if (batch.mask[first + i] == 0) log_probs[i] = kNever;
          else any = true;
        }
        if (!any)  // DIS-3
          troupe::InvalidArgumentError(fmt::format("row {} masks all choices of dimension {}", row, dimension)).raise();
      }
      const float entropy = log_softmax(log_probs);
      visit(row, dimension, first, std::span<const float>(log_probs), entropy);
      first += n;
    }
  }
}

std::size_t MultiCategorical::index_of(ConstRows actions, std::size_t row, std::size_t dimension) const {
  const std::int64_t action = actions.as<std::int64_t>()[row * space_.nvec.size() + dimension];
  const std::int64_t index = action - space_.start[dimension];
  if (index < 0 || index >= space_.nvec[dimension])
    troupe::InvalidArgumentError(fmt::format("row {}: there is no action {}", row, action)).raise();
  return static_cast<std::size_t>(index);
}

void MultiCategorical::sample(const Batch& batch, Generator& generator, Rows actions,
                              std::span<float> log_prob) const {
  const std::span<std::int64_t> out = actions.as<std::int64_t>();
  each_choice(batch, [&](std::size_t row, std::size_t dimension, std::size_t, std::span<const float> log_probs, float) {
    const double draw = generator.random();
    double passed = 0;
    std::size_t choice = log_probs.size(), possible = 0;
    for (std::size_t i = 0; i < log_probs.size(); ++i) {
      if (log_probs[i] == kNever) continue;
      possible = i;  // the last one takes what rounding left over
      passed += static_cast<double>(std::exp(log_probs[i]));
      if (draw < passed) {
        choice = i;
        break;
      }
    }
    if (choice == log_probs.size()) choice = possible;
    out[row * space_.nvec.size() + dimension] = static_cast<std::int64_t>(choice) + space_.start[dimension];
    log_prob[row] = (dimension == 0 ? 0.0f : log_prob[row]) + log_probs[choice];
  });
}

void MultiCategorical::mode(const Batch& batch, Rows actions) const {
  const std::span<std::int64_t> out = actions.as<std::int64_t>();
  each_choice(batch, [&](std::size_t row, std::size_t dimension, std::size_t, std::span<const float> log_probs, float) {
    const auto best = std::max_element(log_probs.begin(), log_probs.end()) - log_probs.begin();
    out[row * space_.nvec.size() + dimension] = best + space_.start[dimension];
  });
}

void MultiCategorical::evaluate(const Batch& batch, ConstRows actions, std::span<float> log_prob,
                                std::span<float> entropy) const {
  each_choice(batch,
              [&](std::size_t row, std::size_t dimension, std::size_t, std::span<const float> log_probs, float one) {
                const float chosen = log_probs[index_of(actions, row, dimension)];
                log_prob[row] = (dimension == 0 ? 0.0f : log_prob[row]) + chosen;
                entropy[row] = (dimension == 0 ? 0.0f : entropy[row]) + one;
              });
}

void MultiCategorical::backward(const Batch& batch, ConstRows actions, std::span<const float> d_log_prob,
                                std::span<const float> d_entropy, std::span<float> d_params) const {
  each_choice(batch, [&](std::size_t row, std::size_t dimension, std::size_t first, std::span<const float> log_probs,
                         float entropy) {
    const std::size_t chosen = index_of(actions, row, dimension);
    for (std::size_t i = 0; i < log_probs.size(); ++i) {
      const float p = log_probs[i] == kNever ? 0.0f : std::exp(log_probs[i]);
      const float of_entropy = p == 0 ? 0.0f : -p * (log_probs[i] + entropy);
      d_params[first + i] = d_log_prob[row] * ((i == chosen ? 1.0f : 0.0f) - p) + d_entropy[row] * of_entropy;
    }
  });
}

}  // namespace rl

#include "apps/rl/policies/q_policy.h"

#include <algorithm>

#include "apps/rl/algorithms/masked_choice.h"

namespace rl {
namespace {

const QNetworkSpec& checked_for_acting(const QNetworkSpec& spec) {
  check_q_network(spec).value();
  return spec;
}

}  // namespace

QPolicy::QPolicy(const QNetworkSpec& spec, troupe::kernels::Isa isa)
    : start_(std::get<Discrete>(checked_for_acting(spec).action_space).start),
      net_(spec, isa),
      encoder_(ObservationEncoder::make(spec.observation_space).value()) {}

void QPolicy::greedy(std::span<const float> params, const Seen& seen, Rows actions) {
  net_.forward(params, encoder_.encode(seen.obs, encoded_), q_);
  const std::span<std::int64_t> out = actions.as<std::int64_t>();
  for (std::size_t row = 0; row < seen.obs.rows(); ++row) {
    const auto first = q_.begin() + static_cast<std::ptrdiff_t>(row * net_.actions());
    if (!seen.mask.empty()) {
      const std::span<const float> q(q_);
      out[row] = start_ + static_cast<std::int64_t>(best_allowed(q.subspan(row * net_.actions(), net_.actions()),
                                                                 allowed(seen, row)));
      continue;
    }
    out[row] = start_ + (std::max_element(first, first + static_cast<std::ptrdiff_t>(net_.actions())) - first);
  }
}

void QPolicy::epsilon_greedy(std::span<const float> params, const Seen& seen, double epsilon, Generator& generator,
                             Rows actions) {
  if (epsilon < 1) greedy(params, seen, actions);
  const std::span<std::int64_t> out = actions.as<std::int64_t>();
  for (std::size_t row = 0; row < out.size(); ++row) {
    if (generator.random() >= epsilon) continue;
    out[row] = start_ + draw_choice(static_cast<std::int64_t>(net_.actions()), allowed(seen, row), generator);
  }
}

std::span<const std::uint8_t> QPolicy::allowed(const Seen& seen, std::size_t row) const {
  return seen.mask.empty() ? seen.mask : seen.mask.subspan(row * net_.actions(), net_.actions());
}

}  // namespace rl

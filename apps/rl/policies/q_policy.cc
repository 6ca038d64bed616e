#include "apps/rl/policies/q_policy.h"

#include <algorithm>

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

void QPolicy::greedy(std::span<const float> params, ConstRows obs, Rows actions) {
  net_.forward(params, encoder_.encode(obs, encoded_), q_);
  const std::span<std::int64_t> out = actions.as<std::int64_t>();
  for (std::size_t row = 0; row < obs.rows(); ++row) {
    const auto first = q_.begin() + static_cast<std::ptrdiff_t>(row * net_.actions());
    out[row] = start_ + (std::max_element(first, first + static_cast<std::ptrdiff_t>(net_.actions())) - first);
  }
}

void QPolicy::epsilon_greedy(std::span<const float> params, ConstRows obs, double epsilon, Generator& generator,
                             Rows actions) {
  if (epsilon < 1) greedy(params, obs, actions);
  for (std::int64_t& action : actions.as<std::int64_t>()) {
    if (generator.random() < epsilon)
      action = start_ + static_cast<std::int64_t>(generator.integers(static_cast<std::uint32_t>(net_.actions())));
  }
}

}  // namespace rl

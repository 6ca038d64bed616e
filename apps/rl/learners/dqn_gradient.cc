#include "apps/rl/learners/dqn_gradient.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/rl/algorithms/dqn.h"

namespace rl {

template <class T>
DqnGradient<T>::DqnGradient(const QNetworkSpec& spec, const DqnGradientOptions& options)
    : options_(options),
      start_(std::get<Discrete>(spec.action_space).start),
      net_(spec, options.isa, options.gpu),
      online_row_(spec.actions()),
      target_row_(spec.actions()) {}

template <class T>
void DqnGradient<T>::targets(std::span<const T> online, std::span<const T> target, const TdBatch<T>& batch) {
  const std::size_t actions = net_.actions();
  const auto row_of = [&](const std::vector<T>& q, std::size_t row, std::vector<double>& out) {
    std::copy_n(q.begin() + static_cast<std::ptrdiff_t>(row * actions), actions, out.begin());
  };
  net_.forward(target, batch.next_obs, q_target_next_);
  if (options_.target == TdTarget::kDouble) net_.forward(online, batch.next_obs, q_online_next_);
  targets_.resize(batch.reward.size());
  for (std::size_t row = 0; row < targets_.size(); ++row) {
    const NStepReturn sum{.steps_used = 0,  // TRN-1
                          .discounted_reward = static_cast<double>(batch.reward[row]),
                          .bootstrap_discount = static_cast<double>(batch.discount[row])};
    row_of(q_target_next_, row, target_row_);
    const std::span<const std::uint8_t> allowed =
        batch.next_mask.empty() ? batch.next_mask : batch.next_mask.subspan(row * actions, actions);
    if (options_.target == TdTarget::kDouble) {
      row_of(q_online_next_, row, online_row_);
      targets_[row] = double_dqn_target(sum, online_row_, target_row_, allowed);
    } else {
      targets_[row] = dqn_target(sum, target_row_, allowed);
    }
  }
}

template <class T>
std::size_t DqnGradient<T>::taken(std::int64_t action) const {
  const std::int64_t index = action - start_;
  if (index < 0 || index >= static_cast<std::int64_t>(net_.actions()))
    troupe::InvalidArgumentError(fmt::format("{} is none of {} actions from {}", action, net_.actions(), start_))
        .raise();
  return static_cast<std::size_t>(index);
}

template <class T>
void DqnGradient<T>::check_actions(std::span<const std::int64_t> actions) const {
  for (const std::int64_t action : actions) (void)taken(action);
}

template <class T>
TdScalars DqnGradient<T>::evaluate(std::span<const T> online, std::span<const T> target, const TdBatch<T>& batch,
                                   std::span<T> grads, std::span<double> errors) {
  targets(online, target, batch);
  net_.forward(online, batch.obs, q_);  // last: backward needs it
  dq_.assign(q_.size(), T{0});
  const std::size_t rows = batch.reward.size();
  const auto count = static_cast<double>(batch.whole == 0 ? rows : batch.whole);
  TdScalars out;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = row * net_.actions() + taken(batch.action[row]);
    const double q = static_cast<double>(q_[at]), error = targets_[row] - q;
    const double weight = batch.weight.empty() ? 1 : static_cast<double>(batch.weight[row]);
    const bool squared = options_.loss == TdLoss::kSquared;
    const double slope = squared ? 2 * error : std::clamp(error, -1.0, 1.0);
    dq_[at] = static_cast<T>(-weight * slope / count);
    out.loss += weight * (squared ? error * error : huber(error)) / count;
    out.abs_error += std::abs(error) / count;
    out.q += q / count, out.target += targets_[row] / count;
    errors[row] = error;
  }
  net_.backward(online, dq_, grads);
  return out;
}

template class DqnGradient<float>;
template class DqnGradient<double>;

}  // namespace rl

#include "apps/rl/learners/ppo_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

/// The scalars of all parts of a minibatch (RPL-4).
void add_up(PpoScalars& s, const Peers& peers) {
  if (peers.alone()) return;
  std::array all{&s.policy_loss,  &s.entropy,      &s.value_mse,     &s.value_mse_clipped,
                 &s.approx_kl_k1, &s.approx_kl_k3, &s.clip_fraction, &s.total_loss};
  std::array<double, all.size()> sums{};
  std::ranges::transform(all, sums.begin(), [](const double* one) { return *one; });
  peers.sum(sums);
  for (std::size_t i = 0; i < all.size(); ++i) *all[i] = sums[i];
}

}  // namespace

class PpoLearner::Means {
 public:
  void add(const PpoScalars& scalars, ValueLoss value_loss, double grad_norm) {
    ++count_;
    last_kl_ = scalars.approx_kl_k3;
    const double values =
        value_loss == ValueLoss::kFullUnclipped ? scalars.value_mse : 0.5 * scalars.value_mse_clipped;
    const double now[] = {scalars.policy_loss,  values, scalars.total_loss, scalars.entropy,
                          scalars.approx_kl_k3, scalars.clip_fraction, grad_norm};
    for (std::size_t i = 0; i < std::size(now); ++i) means_[i] += (now[i] - means_[i]) / count_;
  }
  [[nodiscard]] double last_kl() const { return last_kl_; }
  [[nodiscard]] std::vector<Metric> metrics() const {
    std::vector<Metric> out;
    for (std::size_t i = 0; i < means_.size(); ++i) out.push_back({kNames[i], means_[i]});
    return out;
  }

 private:
  static constexpr std::array kNames{"policy_loss", "value_loss", "loss", "entropy", "kl", "clip_fraction",
                                     "grad_norm"};
  std::array<double, kNames.size()> means_{};
  int count_ = 0;
  double last_kl_ = 0;
};

PpoLearner::PpoLearner(const PpoOptions& options)
    : options_(options),
      gradient_(options.policy, options.isa, options.gpu),
      generator_(options.seed) {
  params_ = initial_parameters(options.policy.networks, generator_);
  first_moment_.assign(params_.size(), 0.0f);
  second_moment_.assign(params_.size(), 0.0f);
}

UpdateReport PpoLearner::update(std::span<const SampleView> batches) {
  const OwnedSamples joined = concatenate(batches);
  const OnPolicyView all = on_policy_view(joined.view());
  const std::size_t samples = all.rows();
  if (samples == 0) return {};  // LRN-5
  env_steps_ += static_cast<std::int64_t>(samples);
  order_.resize(samples);
  std::iota(order_.begin(), order_.end(), 0u);
  const PpoLossOptions loss{.clip = options_.clip.at(env_steps_),
                            .value_coefficient = options_.value_coefficient,
                            .entropy_coefficient = options_.entropy_coefficient,
                            .value_loss = options_.value_loss};
  const double learning_rate = options_.learning_rate.at(env_steps_);
  Means means;
  for (int epoch = 0; epoch < options_.epochs; ++epoch) {
    if (options_.minibatch >= samples) {
      learn_rows(all, order_, loss, learning_rate, means);
    } else {
      for (std::size_t i = samples; i > 1; --i)
        std::swap(order_[i - 1], order_[generator_.integers(static_cast<std::uint32_t>(i))]);
      for (std::size_t begin = 0; begin < samples; begin += options_.minibatch) {
        const std::size_t rows = std::min(options_.minibatch, samples - begin);
        learn_rows(all, std::span(order_).subspan(begin, rows), loss, learning_rate, means);
      }
    }
    if (options_.target_kl > 0 && means.last_kl() > 1.5 * options_.target_kl) break;  // as Spinning Up and CleanRL
  }
  UpdateReport report{.metrics = means.metrics(), .td_errors = {}};
  report.metrics.push_back({"explained_variance", explained_variance(all.value, all.returns)});
  report.metrics.push_back({"learning_rate", learning_rate});
  report.metrics.push_back({"clip", loss.clip});
  return report;
}

void PpoLearner::learn_rows(const OnPolicyView& all, std::span<const std::uint32_t> rows, const PpoLossOptions& loss,
                            double learning_rate, Means& means) {
  if (peers_.alone() && rows.size() == all.rows()) {
    step(all, whole_minibatch(all.advantage), loss, learning_rate, means);
    return;
  }
  const Peers::Part part = peers_.part(rows.size());
  gather_minibatch(all, rows.subspan(part.begin, part.size));
  const OnPolicyView own = on_policy_view(minibatch_.view());
  if (peers_.alone()) {
    step(own, whole_minibatch(own.advantage), loss, learning_rate, means);
    return;
  }
  advantages_.resize(rows.size());
  std::ranges::transform(rows, advantages_.begin(), [&](std::uint32_t row) { return all.advantage[row]; });
  step(own, whole_minibatch<float>(advantages_), loss, learning_rate, means);
}

void PpoLearner::gather_minibatch(const OnPolicyView& all, std::span<const std::uint32_t> rows) {
  if (minibatch_.rows() != rows.size()) {
    minibatch_ = OwnedSamples(on_policy_columns(options_.policy.observation_space, options_.policy.action_space,
                                                all.mask.width()),
                              rows.size());
  }
  const OnPolicyOut out = on_policy_out(minibatch_.layout(), minibatch_.memory());
  gather(all.obs, rows, out.obs);
  gather(all.action, rows, out.action);
  if (all.mask.rows() != 0) gather(all.mask, rows, out.mask);
  const auto numbers = [&](std::span<const float> from, std::span<float> to) {
    for (std::size_t i = 0; i < rows.size(); ++i) to[i] = from[rows[i]];
  };
  numbers(all.log_prob, out.log_prob), numbers(all.value, out.value);
  numbers(all.advantage, out.advantage), numbers(all.returns, out.returns);
}

PpoScalars PpoLearner::differentiate(const OnPolicyView& own, const PpoWhole& whole, const PpoLossOptions& loss) {
  const auto now = gradient_.evaluate(params_, own.obs, own.action, own.mask);
  const auto derivatives = gradient_.derivatives();
  return ppo_loss<float>({own.log_prob, own.value, own.advantage, own.returns, whole},
                         {now.log_prob, now.entropy, now.value}, loss,
                         {derivatives.log_prob, derivatives.entropy, derivatives.value}, samples_);
}

void PpoLearner::step(const OnPolicyView& own, const PpoWhole& whole, const PpoLossOptions& loss,
                      double learning_rate, Means& means) {
  const bool rows = own.rows() != 0;
  PpoScalars scalars = rows ? differentiate(own, whole, loss) : PpoScalars();
  const std::span<float> grads = rows ? gradient_.backward(params_) : gradient_.no_gradients();
  peers_.sum(grads);
  add_up(scalars, peers_);
  const double norm = troupe::kernels::global_norm<float>(grads);
  if (!std::isfinite(scalars.total_loss) || !std::isfinite(norm))  // LRN-3
    troupe::InvalidArgumentError(
        fmt::format("PPO's loss is {} and its gradient's norm {}, after {} samples and {} optimizer steps",
                    scalars.total_loss, norm, env_steps_, optimizer_steps_))
        .raise();
  const double scale = troupe::kernels::clip_scale(norm, options_.max_grad_norm);
  troupe::kernels::adam_step<float>(options_.isa, {params_, grads, first_moment_, second_moment_}, ++optimizer_steps_,
                                    scale, {.learning_rate = learning_rate, .epsilon = options_.adam_epsilon});
  means.add(scalars, loss.value_loss, norm);
}

StateDict PpoLearner::save() const {
  StateDict out;
  out.put("params", params_);
  out.put("adam/first_moment", first_moment_);
  out.put("adam/second_moment", second_moment_);
  out.put_one("adam/steps", optimizer_steps_);
  out.put_one("env_steps", env_steps_);
  const Generator::Saved saved = generator_.save();
  out.put("generator", std::vector<std::uint64_t>(saved.begin(), saved.end()));
  return out;
}

void PpoLearner::restore(const StateDict& state) {
  const std::size_t count = params_.size();
  const auto& params = state.get<float>("params", count);
  const auto& first = state.get<float>("adam/first_moment", count);
  const auto& second = state.get<float>("adam/second_moment", count);
  const auto optimizer_steps = state.get_one<std::int64_t>("adam/steps");
  const auto env_steps = state.get_one<std::int64_t>("env_steps");
  Generator::Saved saved{};
  std::ranges::copy(state.get<std::uint64_t>("generator", saved.size()), saved.begin());
  params_ = params, first_moment_ = first, second_moment_ = second;
  optimizer_steps_ = optimizer_steps, env_steps_ = env_steps;
  generator_.restore(saved);
}

}  // namespace rl

// A template: an algorithm of your own, with settings of its own, beside those of `rl`: REINFORCE with a baseline
// (Williams, 1992). The loop, the actors, evaluation, checkpoints and logs are the program's.
//
//   own_algorithm train --algo reinforce --env CartPole-v1 --baseline-coefficient 0.5
#include <cmath>
#include <memory>
#include <span>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/config/algorithms/shared_settings.h"
#include "apps/rl/learners/actor_critic_gradient.h"
#include "apps/rl/program/program.h"
#include "apps/rl/samples/on_policy.h"

namespace {

/// Holds the parameters and improves them from samples; learner.h says what it promises.
class Reinforce final : public rl::Learner {
 public:
  Reinforce(const rl::PolicySpec& policy, double learning_rate, double baseline, std::uint64_t seed)
      : learning_rate_(learning_rate),
        baseline_(baseline),
        gradient_(policy, troupe::kernels::best_isa()),
        optimizer_({}, policy.networks.parameter_count()) {
    rl::Generator generator(seed);
    params_ = rl::initial_parameters(policy.networks, generator);
  }

  [[nodiscard]] std::span<const float> params() const override { return params_; }

  rl::UpdateReport update(std::span<const rl::SampleView> batches) override {
    const rl::OwnedSamples joined = rl::concatenate(batches);
    const rl::OnPolicyView all = rl::on_policy_view(joined.view());
    const auto now = gradient_.evaluate(params_, all.obs, all.action);
    const auto derivatives = gradient_.derivatives();  // of the loss, for each row
    const auto count = static_cast<float>(all.rows());
    double loss = 0;
    for (std::size_t i = 0; i < all.rows(); ++i) {
      const float above = all.returns[i] - all.value[i], error = now.value[i] - all.returns[i];
      loss += static_cast<double>(-above * now.log_prob[i] + static_cast<float>(baseline_) * error * error);
      derivatives.log_prob[i] = -above / count;
      derivatives.value[i] = 2 * static_cast<float>(baseline_) * error / count;
    }
    const double norm = optimizer_.step(params_, gradient_.backward(params_), learning_rate_);
    if (!std::isfinite(norm)) troupe::InvalidArgumentError("the gradient is not finite").raise();
    return {.metrics = {{"loss", loss / static_cast<double>(count)}, {"grad_norm", norm}}, .td_errors = {}};
  }

  [[nodiscard]] rl::StateDict save() const override {
    rl::StateDict out;
    out.put("params", params_);
    out.put_all("optimizer", optimizer_.save());
    return out;
  }
  void restore(const rl::StateDict& state) override {
    const auto& params = state.get<float>("params", params_.size());
    optimizer_.restore(state.get_all("optimizer"));
    params_ = params;
  }

 private:
  double learning_rate_, baseline_;
  rl::ActorCriticGradient<float> gradient_;
  rl::FlatOptimizer optimizer_;
  std::vector<float> params_;
};

rl::AlgorithmConfig reinforce() {
  return {.name = "reinforce",
          .loop = rl::LoopKind::kOnPolicy,
          .set_defaults =
              [](rl::RunConfig& c) {
                c.horizon = 128;
                c.own = {{"learning_rate", 3e-3}, {"baseline_coefficient", 0.5}};
              },
          .settings =
              [](rl::RunConfig& c) -> std::vector<rl::Setting> {
                return {{.name = "learning_rate", .help = "Of Adam", .value = &c.own["learning_rate"], .least = 0},
                        {.name = "baseline_coefficient", .help = "Share of the baseline's error",
                         .value = &c.own["baseline_coefficient"], .least = 0}};
              },
          .discount = [](const rl::RunConfig&) { return rl::DiscountSettings{.gamma = 0.99, .gae_lambda = 1}; },
          .policy = &rl::actor_critic_policy,
          .learner = [](const rl::RunConfig& c, const rl::AnyPolicySpec& policy) -> std::unique_ptr<rl::Learner> {
            return std::make_unique<Reinforce>(std::get<rl::PolicySpec>(policy), c.own.at("learning_rate"),
                                               c.own.at("baseline_coefficient"), c.seed);
          }};
}

int driver(std::span<char* const> arguments) { return rl::run_program(rl::Program::kRl, arguments); }

}  // namespace

int main(int argc, char** argv) {
  rl::register_algorithm(reinforce());  // here, so that worker processes have it too
  return troupe::run(argc, argv, &driver);
}

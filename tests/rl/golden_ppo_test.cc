// RPL-1, RPL-2, RPL-3, KO-1, KO-3: the recorded PPO update, in double, and in float on every instruction set.
#include <cmath>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/ppo_loss.h"
#include "apps/rl/policies/actor_critic.h"
#include "apps/rl/policies/distribution.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;
using troupe::kernels::Isa;

constexpr const char* kLayers[6] = {"0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"};

rl::NetworkSpec network_of(const value& layers) {
  const auto sizes = golden::numbers(layers);
  const auto size = [&](std::size_t i) { return static_cast<std::size_t>(sizes.at(i)); };
  return {.input = {size(0)}, .hidden = {size(1), size(2)}, .outputs = size(3)};
}

// The recorded layers in the order of the flat array: pi.0 ... pi.2, vf.0 ... vf.2.
std::vector<double> flat(const value& named) {
  std::vector<double> out;
  for (const char* network : {"pi.", "vf."}) {
    for (const char* layer : kLayers) {
      const auto part = golden::numbers(at(named, std::string(network) + layer));
      out.insert(out.end(), part.begin(), part.end());
    }
  }
  return out;
}

struct Tolerance {
  double scalar, gradient, params;
};

// One recorded file, run in T.
template <class T>
class PpoRun {
 public:
  PpoRun(const golden::File& file, Isa isa, Tolerance tolerance)
      : file_(file.content),
        isa_(isa),
        tolerance_(tolerance),
        net_({.policy = network_of(at("settings", "layers_policy")),
              .value = network_of(at("settings", "layers_value"))},
             isa),
        distribution_(rl::make_distribution<T>(
                          rl::Discrete{.n = static_cast<std::int64_t>(net_.spec().policy.outputs)}).value()) {
    obs_ = column("obs"), old_log_prob_ = column("old_log_prob"), old_value_ = column("old_value");
    advantage_ = column("advantage"), returns_ = column("return");
    for (double a : golden::numbers(at("batch", "action"))) action_.push_back(static_cast<std::int64_t>(a));
  }

  void check_scalars_and_samples() {
    start(rl::ValueLoss::kHalfClipped);
    const rl::PpoScalars half = gradients();
    const value& want = file_.at("scalars");
    const auto near = [&](double got, const char* key) {
      EXPECT_NEAR(got, golden::number(golden::at(want, key)), tolerance_.scalar) << key;
    };
    near(half.policy_loss, "policy_loss"), near(half.entropy, "entropy_mean");
    near(half.value_mse, "value_mse"), near(half.value_mse_clipped, "value_mse_clipped");
    near(half.approx_kl_k1, "approx_kl_k1"), near(half.approx_kl_k3, "approx_kl_k3"),
        near(half.clip_fraction, "clipfrac");
    near(rl::explained_variance<T>(old_value_, returns_), "explained_variance");
    near(half.total_loss, "total_loss_clipped_half");
    const value& samples = file_.at("per_sample");
    near_all(log_prob_, golden::at(samples, "log_prob"), tolerance_.scalar);
    near_all(entropy_, golden::at(samples, "entropy"), tolerance_.scalar);
    near_all(samples_.ratio, golden::at(samples, "ratio"), tolerance_.scalar);
    near_all(samples_.normalized_advantage, golden::at(samples, "normalized_advantage"), tolerance_.scalar);
    near_all(values_, golden::at(samples, "value"), tolerance_.scalar);
    start(rl::ValueLoss::kFullUnclipped);
    near(gradients().total_loss, "total_loss_unclipped_full");
  }

  void check_updates(const char* section, rl::ValueLoss value_loss) {
    start(value_loss);
    const value& want = file_.at(section);
    std::int64_t step = 0;
    for (const value& recorded : golden::at(want, "steps").as_array()) {
      SCOPED_TRACE(std::string(section) + " step " + std::to_string(++step));
      const double loss = gradients().total_loss;
      EXPECT_NEAR(loss, golden::number(golden::at(recorded, "loss")),
                  tolerance_.scalar * std::max(1.0, std::abs(loss)));
      if (step == 1) check_arrays(grads_, want, "grad", tolerance_.gradient);
      const double norm = troupe::kernels::global_norm<T>(grads_);
      const double scale = troupe::kernels::clip_scale(norm, setting("max_grad_norm"));
      EXPECT_NEAR(norm, golden::number(golden::at(recorded, "grad_norm_before_clip")), tolerance_.gradient);
      EXPECT_NEAR(norm * scale, golden::number(golden::at(recorded, "grad_norm_after_clip")), tolerance_.gradient);
      troupe::kernels::adam_step<T>(isa_, {params_, grads_, first_, second_}, step, scale,
                                    {.learning_rate = setting("adam_lr"),
                                     .beta1 = setting("adam_beta1"),
                                     .beta2 = setting("adam_beta2"),
                                     .epsilon = setting("adam_eps")});
      check_arrays(params_, want, "params_after_" + std::to_string(step), tolerance_.params);
    }
    EXPECT_GT(step, 0);
  }

 private:
  const value& at(const char* section, const char* key) const { return golden::at(file_.at(section), key); }
  double setting(const char* key) const { return golden::number(at("settings", key)); }
  std::vector<T> column(const char* key) const {
    const auto wide = golden::numbers(at("batch", key));
    return {wide.begin(), wide.end()};
  }

  void start(rl::ValueLoss value_loss) {
    const std::vector<double> wide = flat(file_.at("params"));
    params_.assign(wide.begin(), wide.end());
    grads_.assign(wide.size(), T{0}), first_.assign(wide.size(), T{0}), second_.assign(wide.size(), T{0});
    options_ = {.clip = setting("clip"),
                .value_coefficient = setting("vf_coef"),
                .entropy_coefficient = setting("ent_coef"),
                .advantage_epsilon = setting("advantage_eps"),
                .value_loss = value_loss};
  }

  rl::PpoScalars gradients() {
    net_.evaluate(params_, obs_, logits_, values_);
    logits_grad_.resize(logits_.size());
    for (auto* column : {&log_prob_, &entropy_, &log_prob_grad_, &entropy_grad_, &values_grad_})
      column->resize(values_.size());
    const rl::ConstRows actions{std::span<const std::int64_t>(action_), 1};
    distribution_->evaluate({logits_}, actions, log_prob_, entropy_);
    const rl::PpoScalars scalars =
        rl::ppo_loss<T>({old_log_prob_, old_value_, advantage_, returns_}, {log_prob_, entropy_, values_}, options_,
                        {log_prob_grad_, entropy_grad_, values_grad_}, samples_);
    distribution_->backward({logits_}, actions, log_prob_grad_, entropy_grad_, logits_grad_);
    net_.backward(params_, logits_grad_, values_grad_, grads_);
    return scalars;
  }

  static void near_all(const std::vector<T>& got, const value& want, double tolerance) {
    const auto numbers = golden::numbers(want);
    ASSERT_EQ(got.size(), numbers.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(got[i]), numbers[i], tolerance * std::max(1.0, std::abs(numbers[i]))) << i;
    }
  }

  // Full arrays under `key`, or sums, norms and first entries under `key`_summary; nothing when neither was recorded.
  void check_arrays(const std::vector<T>& got, const value& want, const std::string& key, double tolerance) const {
    if (const value* full = want.as_object().if_contains(key)) {
      const std::vector<double> numbers = flat(*full);
      ASSERT_EQ(got.size(), numbers.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(static_cast<double>(got[i]), numbers[i], tolerance) << key << " " << i;
    }
    const value* summary = want.as_object().if_contains(key + "_summary");
    if (summary == nullptr) return;
    std::size_t begin = 0;
    for (const char* network : {"pi.", "vf."}) {
      for (const char* layer : kLayers) {
        const value& entry = golden::at(*summary, std::string(network) + layer);
        const std::size_t count = golden::numbers(golden::at(file_.at("params"), std::string(network) + layer)).size();
        double sum = 0, squares = 0;
        for (std::size_t i = begin; i < begin + count; ++i) {
          sum += static_cast<double>(got[i]);
          squares += static_cast<double>(got[i]) * static_cast<double>(got[i]);
        }
        const double slack = tolerance * std::sqrt(static_cast<double>(count)) * 4;
        EXPECT_NEAR(sum, golden::number(golden::at(entry, "sum")), slack) << key << " " << network << layer;
        EXPECT_NEAR(std::sqrt(squares), golden::number(golden::at(entry, "l2")), slack)
            << key << " " << network << layer;
        std::size_t i = begin;
        for (double first : golden::numbers(golden::at(entry, "first")))
          EXPECT_NEAR(static_cast<double>(got[i++]), first, tolerance);
        begin += count;
      }
    }
  }

  const golden::json::object& file_;
  Isa isa_;
  Tolerance tolerance_;
  rl::ActorCritic<T> net_;
  std::unique_ptr<rl::Distribution<T>> distribution_;
  rl::PpoLossOptions options_;
  std::vector<std::int64_t> action_;
  std::vector<T> obs_, old_log_prob_, old_value_, advantage_, returns_;
  std::vector<T> params_, grads_, first_, second_, logits_, values_, log_prob_, entropy_;
  std::vector<T> logits_grad_, values_grad_, log_prob_grad_, entropy_grad_;
  rl::PpoPerSample<T> samples_;
};

template <class T>
void check_all(Isa isa, Tolerance tolerance) {
  const auto files = golden::files_of(golden::Kind::kPpo);
  if (files.empty()) GTEST_SKIP() << "no recorded update";
  for (const golden::File* file : files) {
    SCOPED_TRACE(file->path.string());
    PpoRun<T> run(*file, isa, tolerance);
    run.check_scalars_and_samples();
    run.check_updates("clipped_half", rl::ValueLoss::kHalfClipped);
    run.check_updates("unclipped_full", rl::ValueLoss::kFullUnclipped);
  }
}

TEST(GoldenPpo, Double) { check_all<double>(Isa::kReference, {.scalar = 1e-12, .gradient = 1e-12, .params = 1e-13}); }

TEST(GoldenPpo, FloatOnEveryInstructionSet) {
  for (Isa isa : troupe::kernels::kAllIsas) {
    if (!isa_supported(isa)) continue;
    SCOPED_TRACE(std::string(isa_name(isa)));
    check_all<float>(isa, {.scalar = 2e-6, .gradient = 2e-6, .params = 1e-6});
  }
}

}  // namespace

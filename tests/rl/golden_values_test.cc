// DQ-1, DQ-2, PR-1 to PR-3, SAC-1 to SAC-3 against the recorded cases.
#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/dqn.h"
#include "apps/rl/algorithms/prioritized_replay.h"
#include "apps/rl/algorithms/sac.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "tests/rl/golden.h"

namespace {

using golden::json::value;

constexpr double kTolerance = 1e-12;

void near(double got, double want, const char* what) {
  EXPECT_NEAR(got, want, kTolerance * std::max(1.0, std::abs(want))) << what;
}

// The columns of one case by name.
class Case {
 public:
  explicit Case(const value& content) : content_(content) {}
  [[nodiscard]] std::vector<double> column(std::string_view key) const {
    return golden::numbers(golden::at(content_, key));
  }
  [[nodiscard]] std::vector<std::uint8_t> flags(std::string_view key) const {
    return golden::flags(golden::at(content_, key));
  }
  [[nodiscard]] double scalar(std::string_view key) const { return golden::number(golden::at(content_, key)); }
  [[nodiscard]] std::size_t size(std::string_view key) const { return static_cast<std::size_t>(scalar(key)); }

 private:
  const value& content_;
};

template <class Body>
void for_each_case(golden::Kind kind, Body body) {
  const auto files = golden::files_of(kind);
  if (files.empty()) GTEST_SKIP() << "no recorded cases";
  for (const golden::File* file : files) {
    std::size_t index = 0;
    for (const value& c : file->content.at("cases").as_array()) {
      SCOPED_TRACE(file->path.string() + " case " + std::to_string(index++));
      body(Case(c));
    }
  }
}

TEST(GoldenDqn, TargetsErrorsAndLosses) {
  for_each_case(golden::Kind::kDqn, [](const Case& c) {
    const std::size_t n = c.size("n_step"), actions = c.size("num_actions"), batch = c.size("batch");
    const auto reward = c.column("reward"), online = c.column("q_online_next"), target = c.column("q_target_next"),
               taken = c.column("q_taken");
    const auto terminated = c.flags("terminated"), truncated = c.flags("truncated");
    const auto steps = c.column("steps_used"), sum = c.column("discounted_reward"),
               discount = c.column("bootstrap_discount");
    const auto plain = c.column("target_dqn"), twice = c.column("target_double_dqn"),
               error = c.column("td_error_double");
    const auto losses = c.column("huber_per_sample_double");
    double huber_sum = 0, square_sum = 0;
    for (std::size_t i = 0; i < batch; ++i) {
      const auto got = rl::n_step_return(std::span(reward).subspan(i * n, n), std::span(terminated).subspan(i * n, n),
                                         std::span(truncated).subspan(i * n, n), c.scalar("gamma"));
      EXPECT_EQ(static_cast<double>(got.steps_used), steps[i]);
      near(got.discounted_reward, sum[i], "discounted reward");
      near(got.bootstrap_discount, discount[i], "bootstrap discount");
      const auto q_target = std::span(target).subspan(i * actions, actions);
      near(rl::dqn_target(got, q_target), plain[i], "target");
      const double double_target =
          rl::double_dqn_target(got, std::span(online).subspan(i * actions, actions), q_target);
      near(double_target, twice[i], "double target");
      near(double_target - taken[i], error[i], "error");
      near(rl::huber(double_target - taken[i]), losses[i], "huber");
      huber_sum += rl::huber(double_target - taken[i]);
      square_sum += (double_target - taken[i]) * (double_target - taken[i]);
    }
    near(huber_sum / static_cast<double>(batch), c.scalar("huber_mean_double"), "mean huber");
    near(square_sum / static_cast<double>(batch), c.scalar("mse_mean_double"), "mean square");
  });
}

TEST(GoldenReplay, PrioritiesSamplingWeightsAndUpdates) {
  for_each_case(golden::Kind::kReplay, [](const Case& c) {
    const std::size_t n = c.size("N");
    rl::PriorityTree tree({.capacity = n, .alpha = c.scalar("alpha"), .epsilon = c.scalar("eps")});
    const auto errors = c.column("abs_td_error");
    for (std::size_t i = 0; i < n; ++i) tree.update(i, errors[i]);
    near(tree.total(), c.scalar("total"), "total");
    const double beta = c.scalar("beta"), largest = tree.largest_raw_weight(beta);
    for (std::size_t i = 0; i < n; ++i) {
      near(tree.priority(i), c.column("priority")[i], "priority");
      near(tree.mass(i), c.column("priority_alpha")[i], "mass");
      near(tree.probability(i), c.column("probability")[i], "probability");
      near(tree.raw_weight(i, beta), c.column("weight_raw")[i], "raw weight");
      near(tree.raw_weight(i, beta) / largest, c.column("weight_over_buffer_max")[i], "weight");
    }
    const auto sampled = tree.sample(c.column("u"));
    const auto want = c.column("sampled_index");
    ASSERT_EQ(sampled.size(), want.size());
    double batch_largest = 0;
    for (std::size_t index : sampled) batch_largest = std::max(batch_largest, tree.raw_weight(index, beta));
    for (std::size_t i = 0; i < sampled.size(); ++i) {
      ASSERT_EQ(static_cast<double>(sampled[i]), want[i]) << i;
      near(tree.raw_weight(sampled[i], beta) / largest, c.column("sampled_weight_over_buffer_max")[i],
           "sampled weight");
      near(tree.raw_weight(sampled[i], beta) / batch_largest, c.column("sampled_weight_over_batch_max")[i],
           "batch weight");
    }
    for (std::size_t i = 0; i < sampled.size(); ++i) tree.update(sampled[i], std::abs(c.column("new_td_error")[i]));
    for (std::size_t i = 0; i < n; ++i) near(tree.priority(i), c.column("priority_after")[i], "priority after");
    near(tree.total(), c.scalar("total_after"), "total after");
  });
}

TEST(GoldenSac, SquashedGaussianTargetAndLosses) {
  for_each_case(golden::Kind::kSac, [](const Case& c) {
    const std::size_t batch = c.size("batch"), actions = c.size("action_dim");
    const auto mean = c.column("mean"), log_std = c.column("log_std"), noise = c.column("eps"),
               action = c.column("action");
    const auto gaussian = c.column("gaussian_log_prob"), correction = c.column("tanh_correction"),
               log_prob = c.column("log_prob");
    const auto q1n = c.column("q1_target_next"), q2n = c.column("q2_target_next"), reward = c.column("reward"),
               target = c.column("target");
    const auto terminated = c.flags("terminated");
    const double scale = c.scalar("action_scale");
    std::vector<double> log_probs(batch), targets(batch);
    for (std::size_t i = 0; i < batch; ++i) {
      for (std::size_t a = 0; a < actions; ++a) {
        const std::size_t k = i * actions + a;
        const rl::SquashedSample s = rl::squashed_gaussian(mean[k], log_std[k], noise[k]);
        near(s.log_std, c.column("log_std_clamped")[k], "clamped");
        near(s.pre_tanh, c.column("pre_tanh")[k], "before tanh");
        near(s.action, action[k], "action");
        if (gaussian.size() == batch * actions) near(s.gaussian_log_prob, gaussian[k], "gaussian");
        if (correction.size() == batch * actions) near(s.tanh_correction, correction[k], "correction");
        log_probs[i] += s.gaussian_log_prob - s.tanh_correction;
      }
      near(log_probs[i], log_prob[i], "log-probability");
      near(log_probs[i] - static_cast<double>(actions) * std::log(scale), c.column("log_prob_scaled")[i], "scaled");
      targets[i] = rl::sac_target({.reward = reward[i],
                                   .terminated = terminated[i] != 0,
                                   .q1_target_next = q1n[i],
                                   .q2_target_next = q2n[i],
                                   .next_log_prob = log_probs[i]},
                                  c.scalar("gamma"), c.scalar("alpha"));
      near(targets[i], target[i], "target");
    }
    near(rl::sac_critic_loss(c.column("q1"), c.column("q2"), targets), c.scalar("critic_loss_sum_of_mse"), "critic");
    near(rl::sac_actor_loss(log_probs, c.column("q1_pi"), c.column("q2_pi"), c.scalar("alpha")), c.scalar("actor_loss"),
         "actor");
    near(rl::sac_temperature_loss(log_probs, std::log(c.scalar("alpha")), c.scalar("target_entropy")),
         c.scalar("temperature_loss"), "temperature");
    near(rl::sac_temperature_gradient(log_probs, c.scalar("target_entropy")), c.scalar("temperature_grad_log_alpha"),
         "gradient");
    std::vector<double> averaged = c.column("polyak_target");
    troupe::kernels::move_towards<double>(troupe::kernels::Isa::kReference, averaged, c.column("polyak_online"),
                                          c.scalar("tau"));
    for (std::size_t i = 0; i < averaged.size(); ++i) near(averaged[i], c.column("polyak_result")[i], "polyak");
  });
}

}  // namespace

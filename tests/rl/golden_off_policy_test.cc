// DQG-1, DQG-2, SCG-2, SQG-1, RPB-2 against the recorded cases: the losses of whole minibatches as the learners
// calculate them. Networks without hidden layers that see one-hot rows are tables, so they give the recorded numbers.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/sac.h"
#include "apps/rl/learners/dqn_gradient.h"
#include "apps/rl/learners/sac_gradient.h"
#include "apps/rl/replay/replay_buffer.h"
#include "apps/rl/replay/transition_builder.h"
#include "tests/rl/golden.h"

namespace {

using troupe::kernels::Isa;

// The columns of one recorded case, by name.
class OffPolicyCase {
 public:
  explicit OffPolicyCase(const golden::json::value& content) : content_(content) {}
  template <class T = double>
  [[nodiscard]] std::vector<T> column(std::string_view key) const {
    const auto wide = golden::numbers(golden::at(content_, key));
    return {wide.begin(), wide.end()};
  }
  [[nodiscard]] double scalar(std::string_view key) const { return golden::number(golden::at(content_, key)); }
  [[nodiscard]] std::size_t size(std::string_view key) const { return static_cast<std::size_t>(scalar(key)); }

 private:
  const golden::json::value& content_;
};

template <class Body>
void for_each_off_policy_case(golden::Kind kind, Body body) {
  const auto files = golden::files_of(kind);
  if (files.empty()) GTEST_SKIP() << "no recorded cases";
  for (const golden::File* file : files) {
    std::size_t index = 0;
    for (const golden::json::value& c : file->content.at("cases").as_array()) {
      SCOPED_TRACE(file->path.string() + " case " + std::to_string(index++));
      body(OffPolicyCase(c));
    }
  }
}

void near_relative(double got, double want, double tolerance, const char* what) {
  EXPECT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want))) << what;
}

// Row i shows state first + i.
template <class T>
std::vector<T> one_hot(std::size_t rows, std::size_t first, std::size_t states) {
  std::vector<T> out(rows * states);
  for (std::size_t i = 0; i < rows; ++i) out[i * states + first + i] = 1;
  return out;
}

// Parameters of a linear network with `inputs` inputs whose first are states: outputs[i] of state first + i.
template <class T>
void set_table(std::span<T> params, std::size_t inputs, std::size_t outputs, std::size_t first,
               const std::vector<double>& table) {
  for (std::size_t i = 0; i < table.size() / outputs; ++i)
    for (std::size_t k = 0; k < outputs; ++k)
      params[k * inputs + first + i] = static_cast<T>(table[i * outputs + k]);
}

template <class T>
void check_dqn(const OffPolicyCase& c, Isa isa, double tolerance) {
  const std::size_t batch = c.size("batch"), actions = c.size("num_actions"), states = 2 * batch;
  const rl::QNetworkSpec spec = rl::q_network_for(rl::Discrete{.n = static_cast<std::int64_t>(states)},
                                                  rl::Discrete{.n = static_cast<std::int64_t>(actions)},
                                                  {.hidden = {}})
                                    .value();
  std::vector<T> online(spec.network.parameter_count()), target(online.size()), grads(online.size());
  std::vector<double> taken(batch * actions);
  for (std::size_t i = 0; i < batch; ++i) taken[i * actions + i % actions] = c.column("q_taken")[i];
  set_table<T>(online, states, actions, 0, taken);
  set_table<T>(online, states, actions, batch, c.column("q_online_next"));
  set_table<T>(target, states, actions, batch, c.column("q_target_next"));
  const auto obs = one_hot<T>(batch, 0, states), next_obs = one_hot<T>(batch, batch, states);
  const auto reward = c.column<T>("discounted_reward"), discount = c.column<T>("bootstrap_discount");
  std::vector<std::int64_t> action(batch);
  for (std::size_t i = 0; i < batch; ++i) action[i] = static_cast<std::int64_t>(i % actions);
  const rl::TdBatch<T> samples{.obs = obs, .next_obs = next_obs, .action = action, .reward = reward,
                               .discount = discount};
  std::vector<double> errors(batch);
  const auto evaluate = [&](rl::TdTarget of, rl::TdLoss loss) {
    return rl::DqnGradient<T>(spec, {.target = of, .loss = loss, .isa = isa})
        .evaluate(online, target, samples, grads, errors);
  };
  evaluate(rl::TdTarget::kPlain, rl::TdLoss::kHuber);
  for (std::size_t i = 0; i < batch; ++i)
    near_relative(errors[i], c.column("target_dqn")[i] - c.column("q_taken")[i], tolerance, "plain error");
  near_relative(evaluate(rl::TdTarget::kDouble, rl::TdLoss::kSquared).loss, c.scalar("mse_mean_double"), tolerance,
                "square");
  near_relative(evaluate(rl::TdTarget::kDouble, rl::TdLoss::kHuber).loss, c.scalar("huber_mean_double"), tolerance,
                "huber");
  for (std::size_t i = 0; i < batch; ++i) {
    near_relative(errors[i], c.column("td_error_double")[i], tolerance, "double error");
    // The table's entry that the sample has read moves by the clipped error.
    near_relative(static_cast<double>(grads[i % actions * states + i]),
                  -std::clamp(c.column("td_error_double")[i], -1.0, 1.0) / static_cast<double>(batch), tolerance,
                  "gradient");
  }
}

TEST(GoldenDqn, LossesOfTheLearner) {
  for_each_off_policy_case(golden::Kind::kDqn, [](const OffPolicyCase& c) {
    check_dqn<double>(c, Isa::kReference, 1e-12);
    for (const Isa isa : troupe::kernels::kAllIsas) {
      if (troupe::kernels::isa_supported(isa)) check_dqn<float>(c, isa, 1e-5);
    }
  });
}

// Each recorded window is an environment of its own; what stands behind its end belongs to the next episode.
TEST(GoldenDqn, WindowsOfTheTransitionBuilder) {
  for_each_off_policy_case(golden::Kind::kDqn, [](const OffPolicyCase& c) {
    const std::size_t batch = c.size("batch"), n = c.size("n_step");
    const rl::Discrete numbers{.n = 1000};
    rl::TransitionBuilder builder({.observation_space = numbers, .action_space = numbers, .num_envs = batch,
                                   .n_step = n, .gamma = c.scalar("gamma")});
    const auto reward = c.column("reward");
    const auto terminated = c.column<std::uint8_t>("terminated"), truncated = c.column<std::uint8_t>("truncated");
    std::vector<std::int64_t> obs(batch), next(batch), action(batch);
    for (std::size_t t = 0; t < n; ++t) {
      for (std::size_t i = 0; i < batch; ++i)
        obs[i] = static_cast<std::int64_t>(10 * i + t), next[i] = obs[i] + 1;
      std::vector<double> now;
      std::vector<std::uint8_t> term, trunc, none(batch);
      for (std::size_t i = 0; i < batch; ++i)
        now.push_back(reward[i * n + t]), term.push_back(terminated[i * n + t]), trunc.push_back(truncated[i * n + t]);
      builder.add({rl::ConstRows(std::span<const std::int64_t>(obs), 1),
                   rl::ConstRows(std::span<const std::int64_t>(action), 1), now, term, trunc, none,
                   rl::ConstRows(std::span<const std::int64_t>(next), 1), {}});
    }
    const rl::OwnedSamples built = builder.take();
    const rl::TransitionView all = rl::transition_view(built.view(), numbers, numbers);
    std::vector<int> found(batch);
    for (std::size_t row = 0; row < all.rows(); ++row) {
      const std::int64_t start = all.obs.as<std::int64_t>()[row];
      if (start % 10 != 0) continue;
      const auto i = static_cast<std::size_t>(start / 10);
      ++found[i];
      near_relative(static_cast<double>(all.reward[row]), c.column("discounted_reward")[i], 1e-6, "reward");
      near_relative(static_cast<double>(all.discount[row]), c.column("bootstrap_discount")[i], 1e-6, "discount");
      EXPECT_EQ(static_cast<double>(all.next_obs.as<std::int64_t>()[row] - start), c.column("steps_used")[i]);
    }
    EXPECT_EQ(found, std::vector<int>(batch, 1));
  });
}

TEST(GoldenReplay, WeightsOfTheReplayBuffer) {
  for_each_off_policy_case(golden::Kind::kReplay, [](const OffPolicyCase& c) {
    const std::size_t n = c.size("N");
    const rl::PriorityOptions priorities{.alpha = c.scalar("alpha"), .epsilon = c.scalar("eps")};
    rl::ReplayBuffer replay({.columns = {{.name = "x"}}, .capacity = n, .priorities = priorities});
    replay.add(rl::OwnedSamples({{.name = "x"}}, n).view());
    std::vector<std::int64_t> index(n), generation(n, 1);
    std::iota(index.begin(), index.end(), 0);
    replay.update_priorities(index, generation, c.column<float>("abs_td_error"));
    near_relative(replay.mass().total, c.scalar("total"), 1e-6, "total");
    constexpr std::size_t kDraws = 5000;
    rl::OwnedSamples batch(replay.sample_columns(), kDraws);
    rl::Generator generator(1);
    replay.sample({.beta = c.scalar("beta")}, generator, batch);
    std::vector<double> seen(n);
    for (std::size_t i = 0; i < kDraws; ++i) {
      const auto row = static_cast<std::size_t>(batch.column("index").as<std::int64_t>()[i]);
      ++seen[row];
      near_relative(static_cast<double>(batch.column("weight").as<float>()[i]),
                    c.column("weight_over_buffer_max")[row], 1e-5, "weight");
    }
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(seen[i], kDraws * c.column("probability")[i], 2) << i;
  });
}

template <class T>
void check_sac(const OffPolicyCase& c, Isa isa, double tolerance) {
  const std::size_t batch = c.size("batch"), d = c.size("action_dim"), states = 2 * batch, inputs = states + d;
  const rl::SacNetworks networks =
      rl::sac_networks({.input = {states}, .hidden = {}, .outputs = 2 * d}, {}, rl::Activation::kRelu);
  std::vector<double> outputs(batch * 2 * d);
  for (std::size_t i = 0; i < batch * d; ++i) {
    outputs[i / d * 2 * d + i % d] = c.column("mean")[i];
    outputs[i / d * 2 * d + d + i % d] = c.column("log_std")[i];
  }
  std::vector<T> actor(networks.actor.parameter_count());
  set_table<T>(actor, states, 2 * d, 0, outputs), set_table<T>(actor, states, 2 * d, batch, outputs);
  // Both critics; they look at the state alone.
  const auto critics_of = [&](const char* first, const char* second, std::size_t from) {
    std::vector<T> both(2 * networks.critic.parameter_count());
    set_table<T>(std::span(both).first(both.size() / 2), inputs, 1, from, c.column(first));
    set_table<T>(std::span(both).last(both.size() / 2), inputs, 1, from, c.column(second));
    return both;
  };
  const auto critics = critics_of("q1", "q2", 0), acting = critics_of("q1_pi", "q2_pi", 0);
  const auto targets = critics_of("q1_target_next", "q2_target_next", batch);
  const auto obs = one_hot<T>(batch, 0, states), next_obs = one_hot<T>(batch, batch, states);
  const auto reward = c.column<T>("reward");
  const std::vector<T> action(batch * d);
  std::vector<T> discount;
  for (const double ended : c.column("terminated"))
    discount.push_back(ended != 0 ? T{0} : static_cast<T>(c.scalar("gamma")));
  const rl::SacBatch<T> samples{obs, next_obs, action, reward, discount, {}};
  const auto noise = c.column("eps");
  const double alpha = c.scalar("alpha");

  rl::SacGradient<T> gradient(networks, isa);
  std::vector<T> critic_grads(critics.size()), actor_grads(actor.size());
  std::vector<double> errors(batch);
  gradient.act(actor, samples, noise, noise);
  for (std::size_t i = 0; i < batch; ++i)
    near_relative(gradient.log_prob()[i], c.column("log_prob")[i], tolerance, "log-probability");
  const rl::SacCriticScalars scalars = gradient.critic(critics, targets, samples, alpha, critic_grads, errors);
  near_relative(scalars.loss, c.scalar("critic_loss_sum_of_mse"), tolerance, "critic");
  for (std::size_t i = 0; i < batch; ++i) {
    const double target = c.column("target")[i], q1 = c.column("q1")[i], q2 = c.column("q2")[i];
    near_relative(errors[i], 0.5 * (std::abs(q1 - target) + std::abs(q2 - target)), tolerance, "error");
    near_relative(static_cast<double>(critic_grads[i]), 2 * (q1 - target) / static_cast<double>(batch), tolerance,
                  "gradient");
  }
  near_relative(gradient.actor(actor, acting, samples, alpha, actor_grads), c.scalar("actor_loss"), tolerance, "actor");
  near_relative(rl::sac_temperature_gradient(gradient.log_prob(), c.scalar("target_entropy")),
                c.scalar("temperature_grad_log_alpha"), tolerance, "temperature");
}

TEST(GoldenSac, LossesOfTheLearner) {
  for_each_off_policy_case(golden::Kind::kSac, [](const OffPolicyCase& c) {
    check_sac<double>(c, Isa::kReference, 1e-12);
    for (const Isa isa : troupe::kernels::kAllIsas) {
      if (troupe::kernels::isa_supported(isa)) check_sac<float>(c, isa, 2e-5);
    }
  });
}

}  // namespace

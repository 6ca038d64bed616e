// DQG-1, DQG-2, QNT-1, QPO-1, QPO-2, DQL-1, LRN-1 to LRN-3 for DQN, and that it learns.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/learners/dqn_learner.h"
#include "apps/rl/policies/q_policy.h"
#include "apps/rl/replay/replay_buffer.h"
#include "apps/rl/replay/transition_builder.h"
#include "kernels/cpu/optimizer/optimizer.h"

namespace {

using namespace rl;
using troupe::kernels::Isa;

const Box kSeen{.dtype = DType::kFloat32, .shape = {3}, .low = {-10}, .high = {10}};
constexpr Discrete kFour{.n = 4, .start = 5};

QNetworkSpec small_q(QHeads heads, Activation activation = Activation::kTanh) {
  return q_network_for(kSeen, kFour, {.hidden = {7, 6}, .activation = activation, .heads = heads}).value();
}

template <class T>
std::vector<T> uniform_numbers(Generator& random, std::size_t count, double low, double high) {
  std::vector<T> out(count);
  for (T& x : out) x = static_cast<T>(static_cast<float>(random.uniform(low, high)));
  return out;
}

// A minibatch of transitions in columns, with weights.
OwnedSamples q_minibatch(std::size_t rows, std::uint64_t seed) {
  auto columns = transition_columns(kSeen, kFour);
  columns.push_back({.name = "weight"});
  OwnedSamples out(columns, rows);
  Generator random(seed);
  for (const char* name : {"obs", "next_obs", "reward", "discount", "weight"}) {
    const bool positive = std::string(name) == "discount" || std::string(name) == "weight";
    for (float& x : out.column(name).as<float>()) x = static_cast<float>(random.uniform(positive ? 0 : -2, 1));
  }
  for (std::int64_t& a : out.column("action").as<std::int64_t>()) a = 5 + random.integers(4);
  return out;
}

TEST(QNetwork, DuelingValuesAreThoseOfItsHeads) {
  const QNetworkSpec spec = small_q(QHeads::kDueling);
  Generator random(1);
  const auto params = uniform_numbers<double>(random, spec.network.parameter_count(), -1, 1);
  const auto obs = uniform_numbers<double>(random, 6 * 3, -1, 1);
  QNetwork<double> q_net(spec, Isa::kReference);
  std::vector<double> q, heads(6 * 5);
  q_net.forward(params, obs, q);
  make_network<double>(spec.network)->forward(params, obs, heads);
  ASSERT_EQ(q.size(), 24u);
  for (std::size_t row = 0; row < 6; ++row) {
    const double* head = heads.data() + row * 5;
    const double mean = (head[1] + head[2] + head[3] + head[4]) / 4;
    for (std::size_t a = 0; a < 4; ++a) EXPECT_NEAR(q[row * 4 + a], head[0] + head[1 + a] - mean, 1e-12);
  }
}

TEST(DqnGradient, DQG1_GradientsMatchFiniteDifferences) {
  constexpr std::size_t kRows = 9;
  for (const QHeads heads : {QHeads::kPlain, QHeads::kDueling}) {
    for (const TdLoss loss : {TdLoss::kHuber, TdLoss::kSquared}) {
      for (const TdTarget target : {TdTarget::kPlain, TdTarget::kDouble}) {
        const QNetworkSpec spec = small_q(heads);
        Generator random(2);
        auto online = uniform_numbers<double>(random, spec.network.parameter_count(), -0.5, 0.5);
        const auto other = uniform_numbers<double>(random, online.size(), -0.5, 0.5);
        const auto obs = uniform_numbers<double>(random, kRows * 3, -1, 1);
        const auto next_obs = uniform_numbers<double>(random, kRows * 3, -1, 1);
        const auto reward = uniform_numbers<double>(random, kRows, -2, 2);
        const auto discount = uniform_numbers<double>(random, kRows, 0, 1);
        const auto weight = uniform_numbers<double>(random, kRows, 0.1, 1);
        std::vector<std::int64_t> action;
        for (std::size_t i = 0; i < kRows; ++i) action.push_back(5 + random.integers(4));
        DqnGradient<double> gradient(spec, {.target = target, .loss = loss, .isa = Isa::kReference});
        const TdBatch<double> batch{.obs = obs, .next_obs = next_obs, .action = action, .reward = reward,
                                    .discount = discount, .weight = weight};
        std::vector<double> grads(online.size()), errors(kRows), ignored(online.size()), moved(kRows);
        const double first = gradient.evaluate(online, other, batch, grads, errors).loss;
        ASSERT_TRUE(std::any_of(errors.begin(), errors.end(), [](double e) { return std::abs(e) > 1; }));
        ASSERT_TRUE(std::any_of(errors.begin(), errors.end(), [](double e) { return std::abs(e) < 1; }));
        // The targets are held fixed: with the online network in them too, the difference is taken at fixed targets.
        std::vector<double> q;
        QNetwork<double> q_net(spec, Isa::kReference);
        std::vector<double> targets(kRows);
        q_net.forward(online, obs, q);
        const auto taken = [&](std::size_t i) { return q[i * 4 + static_cast<std::size_t>(action[i] - 5)]; };
        for (std::size_t i = 0; i < kRows; ++i) targets[i] = errors[i] + taken(i);
        const auto loss_at = [&] {
          q_net.forward(online, obs, q);
          double sum = 0;
          for (std::size_t i = 0; i < kRows; ++i) {
            const double e = targets[i] - taken(i);
            const double huber = std::abs(e) <= 1 ? e * e / 2 : std::abs(e) - 0.5;
            sum += weight[i] * (loss == TdLoss::kSquared ? e * e : huber) / kRows;
          }
          return sum;
        };
        ASSERT_NEAR(loss_at(), first, 1e-12);
        for (std::size_t i = 0; i < online.size(); ++i) {
          const double kept = online[i];
          online[i] = kept + 1e-6;
          const double above = loss_at();
          online[i] = kept - 1e-6;
          const double below = loss_at();
          online[i] = kept;
          ASSERT_NEAR(grads[i], (above - below) / 2e-6, 2e-6) << i;
        }
      }
    }
  }
}

TEST(DqnGradient, AnActionThatIsNoneIsRefused) {
  DqnLearner learner({.policy = small_q(QHeads::kPlain)});
  for (const std::int64_t action : {4, 9}) {
    OwnedSamples batch = q_minibatch(3, 1);
    batch.column("action").as<std::int64_t>()[1] = action;
    const std::vector<SampleView> views{batch.view()};
    EXPECT_THROW(learner.update(views), troupe::InvalidArgumentError);
  }
}

DqnOptions q_options(std::uint64_t seed = 3) {
  return {.policy = small_q(QHeads::kDueling, Activation::kRelu), .target = {.interval = 3, .tau = 1}, .seed = seed};
}

std::vector<float> q_params(const DqnLearner& learner) { return {learner.params().begin(), learner.params().end()}; }

void q_updates(DqnLearner& learner, std::uint64_t first, int count) {
  for (int i = 0; i < count; ++i) {
    const OwnedSamples batch = q_minibatch(16, first + static_cast<std::uint64_t>(i));
    const std::vector<SampleView> views{batch.view()};
    learner.update(views);
  }
}

TEST(DqnLearner, LRN1_LRN2_SameBitsAgainAndAfterARestore) {
  DqnLearner first(q_options()), second(q_options()), other(q_options(4)), copy(q_options(5));
  q_updates(first, 10, 5), q_updates(second, 10, 5), q_updates(other, 10, 5);
  EXPECT_EQ(q_params(first), q_params(second));
  EXPECT_NE(q_params(first), q_params(other));
  copy.restore(first.save());
  q_updates(first, 50, 4), q_updates(copy, 50, 4);
  EXPECT_EQ(copy.save(), first.save());
  EXPECT_EQ(copy.updates(), 9);
}

TEST(DqnLearner, LRN2_AnotherNetworksStateIsRefused) {
  DqnLearner learner(q_options());
  const StateDict before = learner.save();
  DqnOptions wider = q_options();
  wider.policy = q_network_for(kSeen, kFour, {.hidden = {8}}).value();
  EXPECT_THROW(learner.restore(DqnLearner(wider).save()), troupe::SerializationError);
  EXPECT_EQ(learner.save(), before);
}

TEST(DqnLearner, LRN3_WhatIsNotFiniteChangesNothing) {
  for (const char* name : {"obs", "next_obs", "reward", "discount", "weight"}) {
    DqnLearner learner(q_options());
    q_updates(learner, 1, 2);
    const StateDict before = learner.save();
    OwnedSamples batch = q_minibatch(8, 2);
    batch.column(name).as<float>()[4] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<SampleView> views{batch.view()};
    EXPECT_THROW(learner.update(views), troupe::InvalidArgumentError) << name;
    EXPECT_EQ(learner.save(), before) << name;
  }
}

TEST(DqnLearner, DQL1_TheTargetFollowsAtItsInterval) {
  DqnLearner learner(q_options());
  const auto target = [&] { return learner.save().get<float>("target"); };
  const auto first = target();
  EXPECT_EQ(first, q_params(learner));
  q_updates(learner, 1, 2);
  EXPECT_EQ(target(), first);
  q_updates(learner, 3, 1);
  EXPECT_EQ(target(), q_params(learner));

  DqnOptions options = q_options();
  options.target = {.interval = 1, .tau = 0.25};
  DqnLearner soft(options);
  const auto before = soft.save().get<float>("target");
  q_updates(soft, 1, 1);
  const auto after = soft.save().get<float>("target");
  for (std::size_t i = 0; i < after.size(); ++i)
    ASSERT_NEAR(after[i], 0.75f * before[i] + 0.25f * soft.params()[i], 1e-6);
}

TEST(DqnLearner, ReportsErrorsOfItsRowsAndItsMetrics) {
  DqnOptions options = q_options();
  options.learning_rate = {.first = 1e-2, .last = 0, .over_steps = 4};
  DqnLearner learner(options);
  const OwnedSamples left = q_minibatch(5, 1), right = q_minibatch(6, 2);
  std::vector<double> errors(11);
  std::vector<float> grads(learner.params().size());
  const OwnedSamples both = concatenate(std::vector<SampleView>{left.view(), right.view()});
  const TransitionView all = transition_view(both.view(), kSeen, kFour);
  DqnGradient<float> gradient(options.policy, {});
  const TdScalars want = gradient.evaluate(
      learner.params(), learner.params(),
      {.obs = all.obs.as<float>(), .next_obs = all.next_obs.as<float>(), .action = all.action.as<std::int64_t>(),
       .reward = all.reward, .discount = all.discount, .weight = all.weight},
      grads, errors);
  const std::vector<SampleView> views{left.view(), right.view()};
  const UpdateReport report = learner.update(views);
  ASSERT_EQ(report.td_errors.size(), 11u);
  for (std::size_t i = 0; i < 11; ++i) EXPECT_EQ(report.td_errors[i], static_cast<float>(std::abs(errors[i])));
  const std::vector<Metric> metrics{
      {"loss", want.loss}, {"td_error", want.abs_error}, {"q", want.q}, {"target", want.target},
      {"learning_rate", 1e-2}, {"grad_norm", troupe::kernels::global_norm<float>(grads)}};
  EXPECT_EQ(report.metrics, metrics);
  EXPECT_DOUBLE_EQ(learner.update(views).metrics[4].value, 0.75e-2);
}

TEST(DqnLearner, BadOptionsAndBatchesAreRefused) {
  DqnOptions still = q_options();
  still.target.interval = 0;
  EXPECT_THROW(DqnLearner{still}, troupe::InvalidArgumentError);
  still.target = {.interval = 1, .tau = 0};
  EXPECT_THROW(DqnLearner{still}, troupe::InvalidArgumentError);
  EXPECT_FALSE(q_network_for(kSeen, kSeen).ok());
  QNetworkSpec narrow = small_q(QHeads::kPlain);
  narrow.network.outputs = 3;
  EXPECT_FALSE(check_q_network(narrow).ok());
  DqnLearner learner(q_options());
  const OwnedSamples none = q_minibatch(0, 1), other(transition_columns(kFour, kFour), 2);
  EXPECT_THROW(learner.update(std::vector<SampleView>{none.view()}), troupe::InvalidArgumentError);
  EXPECT_THROW(learner.update(std::vector<SampleView>{other.view()}), troupe::InvalidArgumentError);
  EXPECT_THROW(learner.update({}), troupe::InvalidArgumentError);
}

TEST(QNetwork, ItsJsonReadsBackAndOtherJsonIsRefused) {
  for (const QHeads heads : {QHeads::kPlain, QHeads::kDueling})
    EXPECT_EQ(q_network_from_json(to_json(small_q(heads))).value(), small_q(heads));
  boost::json::value json = to_json(small_q(QHeads::kPlain));
  json.as_object()["heads"] = "dueling";  // one output short
  EXPECT_FALSE(q_network_from_json(json).ok());
  EXPECT_FALSE(q_network_from_json(boost::json::parse("{}")).ok());
}

TEST(QPolicy, QPO1_QPO2_GreedyAndNowAndThenAny) {
  const QNetworkSpec spec = small_q(QHeads::kPlain);
  QPolicy policy(spec);
  std::vector<float> params(spec.network.parameter_count(), 0.0f);
  std::vector<float> obs(3 * 2000);
  std::vector<std::int64_t> actions(2000);
  const Rows out{std::span(actions), 1};
  policy.greedy(params, ConstRows(std::span(obs), 3), out);
  EXPECT_EQ(std::count(actions.begin(), actions.end(), 5), 2000);  // all values are equal: the first
  params[params.size() - 2] = 1;                                   // the bias of the third action
  Generator random(4);
  policy.epsilon_greedy(params, ConstRows(std::span(obs), 3), 0.4, random, out);
  EXPECT_NEAR(std::count(actions.begin(), actions.end(), 7), 1400, 100);
  for (const std::int64_t a : {5, 6, 8}) EXPECT_NEAR(std::count(actions.begin(), actions.end(), a), 200, 65);
  Generator always(4), want(4);
  policy.epsilon_greedy(params, ConstRows(std::span(obs), 3), 1, always, out);
  for (const std::int64_t a : actions) {
    ASSERT_LT(want.random(), 1);
    ASSERT_EQ(a, 5 + want.integers(4));
  }
}

// Six places in a row; action 5 goes left, 6 goes right; the right end is worth 1 and ends the episode. After ten steps
// it is truncated.
class ChainEnv final : public BatchEnv {
 public:
  static constexpr std::int64_t kPlaces = 6;
  explicit ChainEnv(std::size_t n) : places_(n), steps_(n) {
    specs_.id = "Chain";
    specs_.observation_space = Discrete{.n = kPlaces};
    specs_.action_space = Discrete{.n = 2, .start = 5};
    specs_.max_episode_steps = 10;
  }
  const EnvSpecs& specs() const override { return specs_; }
  std::size_t size() const override { return places_.size(); }
  void reset(std::span<const std::uint64_t> /*seeds*/) override { places_.assign(places_.size(), 0); }
  void reset_one(std::size_t env) override { places_[env] = 0, steps_[env] = 0; }
  void observe(Rows obs) const override { std::ranges::copy(places_, obs.as<std::int64_t>().begin()); }
  void step(ConstRows actions, const StepOut& out) override {
    ended_.clear(), returns_.clear(), lengths_.clear(), last_.clear();
    for (std::size_t i = 0; i < places_.size(); ++i) {
      places_[i] = std::max<std::int64_t>(0, places_[i] + (actions.as<std::int64_t>()[i] == 6 ? 1 : -1));
      out.terminated[i] = places_[i] == kPlaces - 1 ? 1 : 0;
      out.truncated[i] = ++steps_[i] == 10 ? 1 : 0;
      out.reward[i] = out.terminated[i], out.is_reset[i] = 0;
      if (out.terminated[i] == 0 && out.truncated[i] == 0) continue;
      ended_.push_back(static_cast<std::uint32_t>(i)), returns_.push_back(out.reward[i]);
      lengths_.push_back(steps_[i]), last_.push_back(places_[i]);
      reset_one(i);
    }
    observe(out.obs);
  }
  EpisodeEnds ends() const override { return {ended_, returns_, lengths_, ConstRows(std::span(last_), 1)}; }

 private:
  EnvSpecs specs_;
  std::vector<std::int64_t> places_, steps_, lengths_, last_;
  std::vector<std::uint32_t> ended_;
  std::vector<double> returns_;
};

// The loop of an off-policy run, in this thread; the values of going right from each place.
std::vector<float> chain_values(std::uint64_t seed, const QNetworkOptions& network, bool priorities,
                                std::size_t n_step) {
  constexpr std::size_t kEnvs = 4, kBatch = 32;
  ChainEnv env(kEnvs);
  const EnvSpecs& specs = env.specs();
  const QNetworkSpec spec = q_network_for(specs.observation_space, specs.action_space, network).value();
  DqnLearner learner({.policy = spec,
                      .learning_rate = {.first = 3e-3, .last = 3e-3},
                      .target = {.interval = 20, .tau = 1},
                      .seed = seed});
  QPolicy policy(spec);
  TransitionBuilder builder({.observation_space = specs.observation_space, .action_space = specs.action_space,
                             .num_envs = kEnvs, .n_step = n_step, .gamma = 0.9});
  ReplayBuffer replay({.columns = builder.columns(), .capacity = 2000,
                       .priorities = priorities ? std::optional(PriorityOptions{}) : std::nullopt});
  OwnedSamples batch(replay.sample_columns(), kBatch);
  StepBuffers step(env);
  OwnedRows seen(specs.observation_space, kEnvs), actions(specs.action_space, kEnvs);
  Generator random(seed);
  env.reset(std::vector<std::uint64_t>(kEnvs, seed));
  env.observe(seen.view());
  for (int t = 0; t < 1500; ++t) {
    policy.epsilon_greedy(learner.params(), seen.view(), t < 300 ? 1 : 0.5, random, actions.view());
    env.step(actions.view(), step.out());
    builder.add({seen.view(), actions.view(), step.reward, step.terminated, step.truncated, step.is_reset,
                 step.obs.view(), env.ends()});
    replay.add(builder.take().view());
    std::ranges::copy(step.obs.as<std::int64_t>(), seen.as<std::int64_t>().begin());
    if (t < 50) continue;
    replay.sample({.beta = 0.5}, random, batch);
    const std::vector<SampleView> views{batch.view()};
    const UpdateReport report = learner.update(views);
    if (priorities)
      replay.update_priorities(batch.column("index").as<std::int64_t>(), batch.column("generation").as<std::int64_t>(),
                               report.td_errors);
  }
  QNetwork<float> net(spec, troupe::kernels::best_isa());
  std::vector<float> obs(36), q, right;
  for (std::size_t i = 0; i < 6; ++i) obs[7 * i] = 1;
  net.forward(learner.params(), obs, q);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_GT(q[2 * i + 1], q[2 * i]) << "place " << i;
    right.push_back(q[2 * i + 1]);
  }
  return right;
}

// Were a truncation an end, the values of the first places would be 0.1 to 0.2 smaller; the largest error of 48 runs
// was 0.046.
TEST(DqnLearner, LearnsTheValuesOfAChain) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    for (const bool priorities : {false, true}) {
      const QHeads heads = seed == 2 ? QHeads::kDueling : QHeads::kPlain;
      const auto right = chain_values(seed, {.hidden = {32, 32}, .heads = heads}, priorities, 1);
      for (std::size_t place = 0; place < 5; ++place)
        EXPECT_NEAR(right[place], std::pow(0.9, 4.0 - static_cast<double>(place)), 0.08)
            << "seed " << seed << ", place " << place << (priorities ? ", by priorities" : "");
    }
  }
  chain_values(4, {.hidden = {32, 32}}, true, 3);  // it goes right everywhere
}

}  // namespace

// DEM-1, DEM-2, EPO-1, EPO-2, what collect() promises, and LRN-1 to LRN-3 of behavioural cloning.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "apps/common/safetensors/safetensors.h"
#include "apps/rl/config/algorithms/bc.h"
#include "apps/rl/envs/batch_of.h"
#include "apps/rl/samples/demonstrations.h"
#include "apps/rl/samples/epochs.h"
#include "apps/rl/training/collect.h"
#include "apps/rl/training/evaluate.h"
#include "tests/base/temporary_folder.h"

namespace {

using namespace rl;

Policy some_policy(const std::string& env, bool normalized = false) {
  RunConfig config = defaults_of("ppo").value();
  config.env.id = env, config.env.normalize_observation = normalized;
  const Task task = task_of(config).value();
  const std::unique_ptr<Learner> learner = make_learner(config, task.policy);
  return {.env = config.env,
          .spec = task.policy,
          .moments = task.moments,
          .params = {learner->params().begin(), learner->params().end()}};
}

Demonstrations three_episodes() { return collect(some_policy("CartPole-v1"), {.episodes = 3, .seed = 5}).value(); }

TEST(Collect, ItsReturnsAreThoseOfAnEvaluation) {
  for (const char* env : {"CartPole-v1", "Pendulum-v1", "MountainCar-v0"}) {
    const Policy policy = some_policy(env);
    const Demonstrations all = collect(policy, {.episodes = 3, .seed = 5}).value();
    const Evaluation evaluation = evaluate(policy, {.episodes = 3, .seed = 5}).value();
    const std::vector<double> returns = returns_of(all);
    ASSERT_EQ(returns.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(returns[i], evaluation.returns[i], 1e-3) << env;
    EXPECT_EQ(all.ends.back(), all.steps.rows());
  }
}

TEST(Collect, WhatIsKeptIsWhatTheEnvironmentShows) {
  // The same actions, whether or not the policy sees normalized observations: moments of nothing change nothing.
  const Demonstrations raw = collect(some_policy("CartPole-v1"), {.episodes = 1, .seed = 9}).value();
  Policy normalized = some_policy("CartPole-v1", true);
  RunningMoments seen = normalized.moments.at(0);
  std::vector<float> rows;
  for (int i = 0; i < 100; ++i) rows.insert(rows.end(), {5.0f + static_cast<float>(i % 3), 1, 2, 3});
  ASSERT_TRUE(seen.add(std::span<const float>(rows)));
  normalized.moments[0] = seen;
  const Demonstrations other = collect(normalized, {.episodes = 1, .seed = 9}).value();
  const auto first = raw.steps.view().column("obs").row(0).as<float>();
  EXPECT_TRUE(std::ranges::equal(first, other.steps.view().column("obs").row(0).as<float>()));
}

TEST(Evaluate, NothingFaultsOnPurpose) {
  Policy policy = some_policy("CartPole-v1");
  const Evaluation calm = evaluate(policy, {.episodes = 20}).value();
  policy.env.id = "throw:stall:CartPole-v1", policy.env.kwargs = R"({"p": 0.3, "seconds": 3600})";
  EXPECT_EQ(evaluate(policy, {.episodes = 20}).value().returns, calm.returns);
}

/// An episode lasts from 3 to 8 steps; each third one, or when `always` each, throws in its last step but one.
class Flaky {
 public:
  explicit Flaky(bool always) : always_(always) {}
  void seed(std::uint64_t seed) { random_ = Generator(seed); }
  void begin() { left_ = 3 + static_cast<int>(random_.integers(6)), throws_ = always_ || random_.integers(3) == 0; }
  void check(ConstRows, std::size_t) const {}
  StepOutcome step(ConstRows, std::size_t) {
    if (--left_ == 1 && throws_) throw std::runtime_error("it broke");
    return {.reward = 1, .terminated = left_ <= 0};
  }
  void observe(Rows row) const { row.as<float>()[0] = static_cast<float>(left_); }

 private:
  bool always_, throws_ = false;
  int left_ = 0;
  Generator random_{0};
};

TEST(Collect, AFaultedEpisodeIsPlayedAnew) {
  for (const bool always : {false, true}) {
    const EnvSpecs specs{.id = always ? "Broken-v0" : "Flaky-v0",
                         .observation_space = Box{.shape = {1}, .low = {0}, .high = {10}},
                         .action_space = Discrete{.n = 2},
                         .max_episode_steps = {},
                         .reward_threshold = {}};
    ASSERT_TRUE(register_env(specs.id, [=](std::string_view, const BatchEnvOptions& options) {
                  return troupe::Result<std::unique_ptr<BatchEnv>>(batch_of(Flaky(always), specs, options));
                }).ok());
  }
  const Demonstrations all = collect(some_policy("Flaky-v0"), {.episodes = 60, .seed = 1}).value();
  ASSERT_EQ(all.episodes(), 60u);
  const auto seen = all.steps.view().column("obs").as<float>();
  std::size_t begin = 0;
  for (const std::size_t end : all.ends) {  // what is left falls from one observation to the next, to the last step
    for (std::size_t step = begin; step < end; ++step)
      EXPECT_EQ(seen[step], static_cast<float>(end - step)) << "step " << step;
    begin = end;
  }
  EXPECT_THROW((void)collect(some_policy("Broken-v0"), {.episodes = 1}), troupe::RuntimeEnvError);
}

TEST(Demonstrations, DEM2_AFileGivesBackWhatWasKept) {
  const troupe::test::TemporaryFolder folder;
  const Demonstrations all = three_episodes();
  save_demonstrations(folder / "d", all).value();
  const Demonstrations read = load_demonstrations(folder / "d").value();
  EXPECT_EQ(read.env, "CartPole-v1");
  EXPECT_EQ(read.observation_space, all.observation_space);
  EXPECT_EQ(read.action_space, all.action_space);
  EXPECT_EQ(read.ends, all.ends);
  ASSERT_EQ(read.steps.layout().bytes(), all.steps.layout().bytes());
  for (const Column& column : all.steps.layout().columns()) {
    const ConstRows wrote = all.steps.view().column(column.name), got = read.steps.view().column(column.name);
    EXPECT_TRUE(std::equal(wrote.data(), wrote.data() + wrote.bytes(), got.data())) << column.name;
  }
  EXPECT_THROW(load_demonstrations(folder / "none").value(), troupe::NotFoundError);
}

TEST(Demonstrations, DEM1_WhatCannotBeLearnedFromIsRefused) {
  const troupe::test::TemporaryFolder folder;
  const auto message = [&](const std::function<void(Demonstrations&)>& spoil) {
    Demonstrations all = three_episodes();
    spoil(all);
    save_demonstrations(folder / "bad", all).value();
    const auto read = load_demonstrations(folder / "bad");
    EXPECT_FALSE(read.ok());
    if (read.ok()) return std::string();
    EXPECT_EQ(read.error().code(), troupe::ErrorCode::kSerialization);
    return std::string(read.error().message());
  };
  EXPECT_NE(message([](Demonstrations& d) {
              d.steps.column("obs").as<float>()[9] = std::numeric_limits<float>::quiet_NaN();
            }).find("'obs' of step 2 is nan"),
            std::string::npos);
  EXPECT_NE(message([](Demonstrations& d) { d.steps.column("action").as<std::int64_t>()[4] = 2; })
                .find("the action of step 4 is 2, not one of Discrete(2)"),
            std::string::npos);
  EXPECT_NE(message([](Demonstrations& d) { d.steps.column("terminated").as<std::uint8_t>().back() = 0; })
                .find("last episode does not end"),
            std::string::npos);
  EXPECT_FALSE(message([](Demonstrations& d) { d.action_space = MultiDiscrete{.nvec = {2, 2}}; }).empty());
  EXPECT_NE(message([](Demonstrations& d) { d.steps = OwnedSamples(demonstration_columns(d.observation_space,
                                                                                         d.action_space), 0); })
                .find("last episode does not end"),
            std::string::npos);

  save_demonstrations(folder / "good", three_episodes()).value();
  const std::string bytes = troupe::test::bytes_of(folder / "good");
  for (std::size_t size = 0; size < bytes.size(); size += bytes.size() / 40) {
    troupe::test::put(folder / "cut", bytes.substr(0, size));
    const auto read = load_demonstrations(folder / "cut");
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.error().code(), troupe::ErrorCode::kSerialization);
  }
  save_policy(folder / "policy", some_policy("CartPole-v1")).value();
  EXPECT_NE(std::string(load_demonstrations(folder / "policy").error().message()).find("not a file of demonstrations"),
            std::string::npos);
}

TEST(Epochs, EPO1_EveryRowComesOnceInEachEpoch) {
  Epochs epochs(7, 13);
  const auto rows = epochs.take(0, 39);
  std::set<std::vector<std::uint32_t>> orders;
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<std::uint32_t> order(rows.begin() + static_cast<std::ptrdiff_t>(13 * epoch),
                                           rows.begin() + static_cast<std::ptrdiff_t>(13 * (epoch + 1)));
    EXPECT_EQ(std::set(order.begin(), order.end()).size(), 13u);
    EXPECT_LT(*std::ranges::max_element(order), 13u);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u) << "an epoch has the order of another one";
  EXPECT_NE(Epochs(8, 13).take(0, 13), Epochs(7, 13).take(0, 13));
  EXPECT_EQ(Epochs(7, 1).take(5, 2), (std::vector<std::uint32_t>{0, 0}));
}

TEST(Epochs, EPO2_RowsAreTheSameHoweverTheyAreCut) {
  const auto whole = Epochs(7, 13).take(0, 100);
  for (const std::size_t piece : {1u, 5u, 13u, 40u}) {
    std::vector<std::uint32_t> cut;
    for (std::size_t first = 0; first < 100; first += piece) {
      const auto rows = Epochs(7, 13).take(first, std::min(piece, 100 - first));  // each time as after a restart
      cut.insert(cut.end(), rows.begin(), rows.end());
    }
    EXPECT_EQ(cut, whole) << piece;
  }
}

class BcLearning : public testing::Test {
 protected:
  BcLearning() {
    config_.seed = 2;
    config_.network.hidden = {16};
  }
  [[nodiscard]] BcLearner learner() const {
    return BcLearner(bc_options(config_, std::get<PolicySpec>(task_of(config_).value().policy)));
  }
  UpdateReport update(BcLearner& learner) {
    const SampleView view = data_.steps.view();
    return learner.update(std::span(&view, 1));
  }
  static double metric(const UpdateReport& report, const std::string& name) {
    return std::ranges::find(report.metrics, name, &Metric::name)->value;
  }

  RunConfig config_ = defaults_of("bc").value();
  Demonstrations data_ = three_episodes();
};

TEST_F(BcLearning, ItsLossIsTheLikelihoodOfWhatWasDone) {
  BcLearner bc = learner();
  const PolicySpec policy = std::get<PolicySpec>(task_of(config_).value().policy);
  ActorCriticGradient<float> gradient(policy, troupe::kernels::best_isa());
  const SampleView steps = data_.steps.view();
  const auto now = gradient.evaluate(bc.params(), steps.column("obs"), steps.column("action"));
  const double log_prob = std::accumulate(now.log_prob.begin(), now.log_prob.end(), 0.0) /
                          static_cast<double>(steps.rows());
  const double entropy = std::accumulate(now.entropy.begin(), now.entropy.end(), 0.0) /
                         static_cast<double>(steps.rows());
  config_.bc.entropy_coefficient = 0.5;
  BcLearner with_entropy = learner();
  const UpdateReport plain = update(bc), other = update(with_entropy);
  EXPECT_NEAR(metric(plain, "log_prob"), log_prob, 1e-5);
  EXPECT_NEAR(metric(plain, "loss"), -log_prob, 1e-5);
  EXPECT_NEAR(metric(other, "loss"), -log_prob - 0.5 * entropy, 1e-5);
}

TEST_F(BcLearning, LRN1_ThePolicyLearnsAndTheValueStays) {
  config_.bc.learning_rate = config_.bc.learning_rate_last = 1e-2;
  BcLearner bc = learner();
  const std::vector<float> before(bc.params().begin(), bc.params().end());
  const double first = metric(update(bc), "loss");
  for (int i = 0; i < 300; ++i) (void)update(bc);
  EXPECT_LT(metric(update(bc), "loss"), first / 4);
  const std::size_t policy = 4 * 16 + 16 + 16 * 2 + 2;
  EXPECT_TRUE(std::equal(before.begin() + policy, before.end(), bc.params().begin() + policy));
}

TEST_F(BcLearning, LRN2_ARestoredOneGoesOnBitForBit) {
  BcLearner one = learner();
  (void)update(one), (void)update(one);
  BcLearner two = learner();
  two.restore(one.save());
  (void)update(one), (void)update(two);
  EXPECT_TRUE(std::ranges::equal(one.params(), two.params()));
  EXPECT_EQ(one.save(), two.save());
}

TEST_F(BcLearning, LRN3_ALossThatIsNotFiniteIsRefused) {
  BcLearner bc = learner();
  const std::vector<float> before(bc.params().begin(), bc.params().end());
  data_.steps.column("obs").as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW((void)update(bc), troupe::InvalidArgumentError);
  EXPECT_TRUE(std::ranges::equal(before, bc.params()));
}

TEST_F(BcLearning, WrappersThatChangeObservationsAreRefused) {
  for (const auto& change : {+[](RunConfig& c) { c.env.normalize_observation = true; },
                             +[](RunConfig& c) { c.env.frame_stack = 4; }}) {
    RunConfig config = config_;
    change(config);
    EXPECT_FALSE(task_of(config).ok());
  }
}

}  // namespace

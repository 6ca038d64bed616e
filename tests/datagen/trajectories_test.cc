// MIX-1, PAC-1, EPL-1 to EPL-3, TRJ-1 to TRJ-4, and GEN-1 to GEN-3 of trajectories.
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/datagen/generators/trajectories/mixture.h"
#include "apps/datagen/generators/trajectories/trajectories.h"
#include "apps/datagen/random/stream.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/envs/batch_of.h"
#include "apps/rl/policies/actor_critic.h"
#include "apps/rl/training/checkpoint.h"
#include "apps/rl/training/evaluate.h"
#include "tests/datagen/samples.h"
#include "tests/base/temporary_folder.h"

namespace {

using namespace datagen;
using namespace datagen::test;
using troupe::kernels::Isa;

rl::Policy some_policy(const std::string& env, const std::string& algorithm = "ppo", bool normalized = false) {
  rl::RunConfig config = rl::defaults_of(algorithm).value();
  config.env.id = env, config.env.normalize_observation = normalized;
  const rl::Task task = rl::task_of(config).value();
  const std::unique_ptr<rl::Learner> learner = rl::make_learner(config, task.policy);
  return {.env = config.env,
          .spec = task.policy,
          .moments = task.moments,
          .params = {learner->params().begin(), learner->params().end()},
          .steps = 12'345};
}

class TrajectoriesTest : public testing::Test {
 protected:
  std::string saved(const rl::Policy& policy, const std::string& name = "policy.bin") {
    const std::string path = (folder_.path() / name).string();
    rl::save_policy(path, policy).value();
    return path;
  }
  troupe::test::TemporaryFolder folder_;
};

std::string refusal(const Typed& typed, troupe::ErrorCode code) {
  const auto made = options_of(trajectories(), typed)->make({.seed = 1});
  if (made.ok()) return "it was made";
  EXPECT_EQ(made.error().code(), code) << made.error().what();
  return made.error().what();
}

/// Everything of a range, in one table's columns.
struct Recorded {
  std::vector<std::int64_t> episode, t, seed, version;
  std::vector<float> obs, final_obs, logp;
  std::vector<std::int64_t> action;
  std::vector<double> reward;
  std::vector<bool> terminated, truncated, has_final, has_logp;

  [[nodiscard]] std::size_t rows() const { return t.size(); }
};
Recorded recorded(Generator& generator, SampleRange range) {
  Recorded out;
  generator.generate(range, [&](const Table& table) {
    const auto column = [&](const char* name) -> const Column& { return table.column(table.schema().find(name)); };
    const auto add = [](auto& to, auto from) { to.insert(to.end(), from.begin(), from.end()); };
    add(out.episode, column("episode_id").values<std::int64_t>()), add(out.t, column("t").values<std::int64_t>());
    add(out.seed, column("seed").values<std::int64_t>()), add(out.obs, column("obs").values<float>());
    add(out.version, column("policy_version").values<std::int64_t>());
    add(out.action, column("action").values<std::int64_t>()), add(out.reward, column("reward").values<double>());
    add(out.logp, column("logp").values<float>()), add(out.final_obs, column("final_obs").values<float>());
    add(out.terminated, column("terminated").values<bool>()), add(out.truncated, column("truncated").values<bool>());
    for (std::size_t row = 0; row < table.rows(); ++row) {
      out.has_final.push_back(!column("final_obs").is_null(row));
      out.has_logp.push_back(!column("logp").is_null(row));
    }
  });
  return out;
}

TEST(Mixture, EachPlaysItsShare) {  // MIX-1
  const Mixture mixture = Mixture::parse("expert=3,random=1").value();
  EXPECT_EQ(mixture.at(0), Behaviour::kExpert);
  EXPECT_EQ(mixture.at(0.7499), Behaviour::kExpert);
  EXPECT_EQ(mixture.at(0.75), Behaviour::kRandom);
  EXPECT_EQ(mixture.at(0.999999), Behaviour::kRandom);
  EXPECT_TRUE(mixture.has(Behaviour::kRandom));
  EXPECT_FALSE(mixture.has(Behaviour::kEpsilon));
  EXPECT_EQ(Mixture::parse("sample").value().at(0.5), Behaviour::kSample);
}

TEST(Mixture, WhatIsNoneIsRefused) {
  for (const char* text : {"", "expert,", "expert=0", "expert=-1", "expert=x", "expert=", "expert=1e999", "expert=nan",
                           "expert,expert=2", "expret"})
    EXPECT_EQ(Mixture::parse(text).error().code(), troupe::ErrorCode::kInvalidArgument) << text;
  EXPECT_NE(Mixture::parse("expret").error().message().find("did you mean 'expert'"), std::string::npos);
}

TEST_F(TrajectoriesTest, AnEpisodeIsTheSameHoweverTheRangeIsCut) {  // GEN-1, GEN-2, EPL-1, PAC-1
  const Typed typed{{"policy", saved(some_policy("CartPole-v1"))},
                    {"medium_policy", saved(some_policy("CartPole-v1", "a2c"), "medium.bin")},
                    {"mixture", "expert=2,sample=2,epsilon=1,random=1,medium=1"}};
  for (const Isa isa : troupe::kernels::kAllIsas) {
    if (!troupe::kernels::isa_supported(isa)) continue;
    const GeneratorContext context{.seed = 5, .isa = isa};
    const std::vector<std::string> expected = samples_of(*make(trajectories(), typed, context), {3, 203});
    ASSERT_EQ(expected.size(), 200u);
    Typed fewer = typed;
    fewer.emplace_back("envs", "7");  // other ones beside each other
    const auto cut = make(trajectories(), fewer, context);
    std::vector<std::string> pieces;
    Stream random(9, 0, 0);
    for (std::uint64_t begin = 3; begin < 203;) {
      const std::uint64_t end = std::min<std::uint64_t>(203, begin + 1 + random.below(50));
      for (std::string& sample : samples_of(*cut, {begin, end})) pieces.push_back(std::move(sample));
      begin = end;
    }
    EXPECT_TRUE(pieces == expected) << troupe::kernels::isa_name(isa);
    EXPECT_EQ(samples_of(*cut, {100, 101}).at(0), expected[97]);
    EXPECT_EQ(table_rows_of(*make(trajectories(), typed, context), {3, 203}),
              table_rows_of(*make(trajectories(), typed, context), {3, 203}));
  }
}

TEST_F(TrajectoriesTest, OtherPoliciesAndSpacesTooAreTheSameHoweverTheRangeIsCut) {
  for (const auto& [env, algorithm, mixture] :
       {std::tuple("Pendulum-v1", "sac", "expert,sample,random"), std::tuple("Pendulum-v1", "ppo", "sample,epsilon"),
        std::tuple("MountainCar-v0", "dqn", "expert,epsilon,random"), std::tuple("Acrobot-v1", "ppo", "sample")}) {
    const Typed typed{{"policy", saved(some_policy(env, algorithm))}, {"mixture", mixture}};
    const GeneratorContext context{.seed = 5, .isa = troupe::kernels::best_isa()};
    const auto generator = make(trajectories(), typed, context);
    const std::vector<std::string> expected = samples_of(*generator, {0, 12});
    std::vector<std::string> pieces = samples_of(*generator, {0, 5});
    for (std::string& sample : samples_of(*generator, {5, 12})) pieces.push_back(std::move(sample));
    EXPECT_TRUE(pieces == expected) << env << " " << algorithm;
  }
}

TEST_F(TrajectoriesTest, RowsAreTheStepsOfEpisodes) {
  const auto generator = make(trajectories(), {{"policy", saved(some_policy("CartPole-v1"))}, {"mixture", "sample"}},
                              {.seed = 2, .isa = troupe::kernels::best_isa()});
  const Recorded all = recorded(*generator, {10, 60});
  std::int64_t episode = 9;
  for (std::size_t row = 0; row < all.rows(); ++row) {
    if (all.t[row] == 0) ++episode;
    const bool last = row + 1 == all.rows() || all.t[row + 1] == 0;
    EXPECT_EQ(all.episode[row], episode);
    EXPECT_EQ(all.t[row], row == 0 || all.t[row] == 0 ? 0 : all.t[row - 1] + 1);
    EXPECT_EQ(all.terminated[row] || all.truncated[row], last);
    EXPECT_EQ(all.has_final[row], last);
    EXPECT_EQ(all.reward[row], 1);
    EXPECT_EQ(all.version[row], 12'345);
    EXPECT_TRUE(all.has_logp[row]);
    EXPECT_TRUE(all.seed[row] >= 0 && all.seed[row] < (1ll << 31));
  }
  EXPECT_EQ(episode, 59);
}

TEST_F(TrajectoriesTest, TheSeedAndTheActionsMakeTheEpisodeAgain) {  // EPL-3
  const auto generator = make(trajectories(), {{"policy", saved(some_policy("CartPole-v1", "ppo", true))},
                                               {"mixture", "sample"}},
                              {.seed = 2, .isa = troupe::kernels::best_isa()});
  const Recorded all = recorded(*generator, {0, 20});
  auto env = rl::make_batch_env("CartPole-v1", {}).value();
  rl::StepBuffers step(*env);
  rl::OwnedRows action(env->specs().action_space, 1);
  for (std::size_t row = 0; row < all.rows(); ++row) {
    if (all.t[row] == 0) {
      const auto seed = static_cast<std::uint64_t>(all.seed[row]);
      env->reset(std::span(&seed, 1));
      env->observe(step.obs.view());
    }
    for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(step.obs.as<float>()[i], all.obs[4 * row + i]);
    action.as<std::int64_t>()[0] = all.action[row];
    env->step(std::as_const(action).view(), step.out());
    ASSERT_EQ(step.reward[0], all.reward[row]);
    ASSERT_EQ(step.terminated[0] != 0, all.terminated[row]);
    if (all.has_final[row]) {
      const auto final_obs = env->ends().final_obs.as<float>();
      for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(final_obs[i], all.final_obs[4 * row + i]);
    } else {
      for (std::size_t i = 0; i < 4; ++i) ASSERT_EQ(all.final_obs[4 * row + i], 0);  // TBL-2
    }
  }
}

TEST_F(TrajectoriesTest, LogProbabilitiesAreThePolicys) {
  const rl::Policy policy = some_policy("CartPole-v1");
  const auto generator = make(trajectories(), {{"policy", saved(policy)}, {"mixture", "sample"}},
                              {.seed = 2, .isa = troupe::kernels::best_isa()});
  const Recorded all = recorded(*generator, {0, 5});
  rl::ActorCritic<float> network(std::get<rl::PolicySpec>(policy.spec).networks, troupe::kernels::best_isa());
  std::vector<float> params, values, log_prob(all.rows()), entropy(all.rows());
  network.evaluate(policy.params, all.obs, params, values);
  const auto distribution = rl::make_distribution<float>(rl::action_space_of(policy.spec)).value();
  distribution->evaluate({params}, rl::ConstRows(std::span<const std::int64_t>(all.action), 1), log_prob, entropy);
  for (std::size_t row = 0; row < all.rows(); ++row) EXPECT_FLOAT_EQ(all.logp[row], log_prob[row]);
}

TEST_F(TrajectoriesTest, WhatABehaviourDoesNotSayHasNoValue) {
  const std::string policy = saved(some_policy("CartPole-v1"));
  const GeneratorContext context{.seed = 2, .isa = troupe::kernels::best_isa()};
  const Recorded expert = recorded(*make(trajectories(), {{"policy", policy}}, context), {0, 3});
  for (std::size_t row = 0; row < expert.rows(); ++row) EXPECT_FALSE(expert.has_logp[row]);
  const Recorded any =
      recorded(*make(trajectories(), {{"env", "CartPole-v1"}, {"mixture", "random"}}, context), {0, 200});
  double right = 0;
  for (std::size_t row = 0; row < any.rows(); ++row) {
    EXPECT_FLOAT_EQ(any.logp[row], -std::log(2.0F));
    EXPECT_EQ(any.version[row], -1);
    right += static_cast<double>(any.action[row]);
  }
  EXPECT_NEAR(right / static_cast<double>(any.rows()), 0.5, 0.03);
  const Recorded some = recorded(
      *make(trajectories(), {{"policy", policy}, {"mixture", "epsilon"}, {"epsilon", "0.3"}}, context), {0, 100});
  std::map<float, std::size_t> counts;
  for (const float one : some.logp) ++counts[one];
  ASSERT_EQ(counts.size(), 2u);  // 0.85 and 0.15
  EXPECT_FLOAT_EQ(counts.begin()->first, std::log(0.15F));
  EXPECT_NEAR(static_cast<double>(counts.begin()->second) / static_cast<double>(some.rows()), 0.15, 0.04);
}

TEST_F(TrajectoriesTest, TheExpertPlaysAsAnEvaluationDoes) {
  const rl::Policy policy = some_policy("CartPole-v1");
  const Recorded all = recorded(
      *make(trajectories(), {{"policy", saved(policy)}}, {.seed = 4, .isa = troupe::kernels::best_isa()}), {0, 4});
  std::map<std::int64_t, std::pair<std::int64_t, double>> episodes;
  for (std::size_t row = 0; row < all.rows(); ++row) {
    episodes[all.episode[row]].first = all.seed[row];
    episodes[all.episode[row]].second += all.reward[row];
  }
  for (const auto& [episode, one] : episodes) {
    const auto seed = static_cast<std::uint64_t>(one.first);
    const auto evaluation = rl::evaluate(policy, {.episodes = 1, .seed = seed}).value();
    EXPECT_EQ(evaluation.returns.at(0), one.second);
  }
}

TEST_F(TrajectoriesTest, AMixtureIsDrawnASample) {
  const auto generator = make(trajectories(), {{"policy", saved(some_policy("CartPole-v1"))},
                                               {"mixture", "expert=1,random=1"}}, {.seed = 3});
  const Recorded all = recorded(*generator, {0, 400});
  std::map<std::int64_t, bool> random;
  for (std::size_t row = 0; row < all.rows(); ++row) random[all.episode[row]] = all.version[row] == -1;
  const auto count = std::count_if(random.begin(), random.end(), [](const auto& one) { return one.second; });
  EXPECT_NEAR(static_cast<double>(count), 200, 40);
}

TEST_F(TrajectoriesTest, WordsSayWhatTheSpacesAndThePolicyAre) {  // TRJ-2, GEN-3
  const std::string path = saved(some_policy("CartPole-v1"));
  const auto options = options_of(trajectories(), {{"policy", path}});
  const boost::json::object identity = options->identity().value();
  const std::string digest(identity.at("policy_sha256").as_string());
  EXPECT_EQ(digest.size(), 64u);
  const auto generator = options->make({.seed = 1}).value()->schema();
  EXPECT_EQ(generator.metadata.at("policy_sha256"), digest);
  EXPECT_EQ(rl::space_from_json(boost::json::parse(generator.metadata.at("action_space"))).value(),
            rl::Space(rl::Discrete{.n = 2}));
  EXPECT_EQ(boost::json::parse(generator.metadata.at("env_spec")).at("id").as_string(), "CartPole-v1");
  EXPECT_EQ(boost::json::parse(generator.metadata.at("env_spec")).at("max_episode_steps").as_int64(), 500);
  rl::Policy other = some_policy("CartPole-v1");
  other.params.back() += 1;
  saved(other);
  EXPECT_NE(options->identity().value().at("policy_sha256").as_string(), digest);
}

TEST_F(TrajectoriesTest, WhatDoesNotFitIsRefusedAndSaysWhy) {  // TRJ-3
  using enum troupe::ErrorCode;
  const std::string policy = saved(some_policy("CartPole-v1"));
  EXPECT_NE(refusal({{"policy", policy}, {"env", "Acrobot-v1"}}, kInvalidArgument).find("Box(float32, [6])"),
            std::string::npos);
  EXPECT_NE(refusal({{"env", "CartPole-v1"}}, kInvalidArgument).find("--policy"), std::string::npos);
  EXPECT_NE(refusal({{"mixture", "random"}}, kInvalidArgument).find("--env"), std::string::npos);
  EXPECT_NE(refusal({{"policy", policy}, {"mixture", "medium"}}, kInvalidArgument).find("--medium-policy"),
            std::string::npos);
  EXPECT_NE(refusal({{"env", "CartPol-v1"}, {"mixture", "random"}}, kNotFound).find("CartPole-v1"), std::string::npos);
  EXPECT_NE(refusal({{"policy", policy + ".not"}}, kNotFound).find("policy.bin.not"), std::string::npos);
  const std::string q = saved(some_policy("CartPole-v1", "dqn"), "q.bin");
  EXPECT_NE(refusal({{"policy", q}, {"mixture", "sample"}}, kInvalidArgument).find("epsilon"), std::string::npos);
  std::ofstream(folder_.path() / "torn.bin") << "not a policy";
  (void)refusal({{"policy", (folder_.path() / "torn.bin").string()}}, kSerialization);
}

TEST_F(TrajectoriesTest, WhatTheUserSetsOfTheEnvironmentHoldsInThePolicysPlace) {
  const auto generator =
      make(trajectories(), {{"policy", saved(some_policy("CartPole-v1"))}, {"max_episode_steps", "3"}}, {.seed = 1});
  const Recorded all = recorded(*generator, {0, 4});
  EXPECT_EQ(all.rows(), 12u);
  EXPECT_TRUE(all.truncated[2] && !all.terminated[2]);
}

TEST_F(TrajectoriesTest, TheCheckLineSaysReturns) {
  const std::string line = options_of(trajectories(), {{"policy", saved(some_policy("CartPole-v1"))},
                                                       {"mixture", "expert,random"}})->check_line({.seed = 1}).value();
  EXPECT_NE(line.find("expert"), std::string::npos);
  EXPECT_NE(line.find("random"), std::string::npos);
  const auto short_one = options_of(trajectories(), {{"policy", saved(some_policy("CartPole-v1"))}});
  EXPECT_NE(short_one->check_line({.seed = 1, .samples = 3}).value().find("first 3 episodes"), std::string::npos);
}

/// Counts to ten; throws at its third step as often as it is told, in all environments together.
class Breaking {
 public:
  static std::atomic<int> left_to_break;

  void seed(std::uint64_t seed) { random_ = rl::Generator(seed); }
  void begin() { at_ = 0, offset_ = static_cast<float>(random_.random()); }
  void check(rl::ConstRows, std::size_t) const {}
  rl::StepOutcome step(rl::ConstRows, std::size_t) {
    if (++at_ == 3 && left_to_break.fetch_sub(1) > 0) throw std::runtime_error("it broke");
    return {.reward = 1, .terminated = at_ == 10};
  }
  void observe(rl::Rows row) const { row.as<float>()[0] = offset_ + static_cast<float>(at_); }

 private:
  rl::Generator random_{0};
  int at_ = 0;
  float offset_ = 0;
};
std::atomic<int> Breaking::left_to_break = 0;

troupe::Result<std::unique_ptr<rl::BatchEnv>> make_breaking(std::string_view, const rl::BatchEnvOptions& options) {
  return rl::batch_of(Breaking(),
                      {.id = "Breaking-v0",
                       .observation_space = rl::Box{.shape = {1}, .low = {0}, .high = {20}},
                       .action_space = rl::Discrete{.n = 2},
                       .max_episode_steps = {},
                       .reward_threshold = {}},
                      options);
}

TEST_F(TrajectoriesTest, AnEpisodeThatBrokeOffIsPlayedAnewAndIsTheSame) {  // EPL-2
  static const bool registered = rl::register_env("Breaking-v0", &make_breaking).ok();
  ASSERT_TRUE(registered);
  const Typed typed{{"env", "Breaking-v0"}, {"mixture", "random"}, {"envs", "4"}};
  Breaking::left_to_break = 0;
  const std::vector<std::string> expected = samples_of(*make(trajectories(), typed, {.seed = 1}), {0, 10});
  Breaking::left_to_break = 7;
  EXPECT_TRUE(samples_of(*make(trajectories(), typed, {.seed = 1}), {0, 10}) == expected);
  EXPECT_LE(Breaking::left_to_break, 0);
  Breaking::left_to_break = 1'000'000;
  try {
    samples_of(*make(trajectories(), typed, {.seed = 1}), {5, 6});
    FAIL() << "it went on";
  } catch (const troupe::RuntimeEnvError& error) {
    EXPECT_NE(std::string(error.what()).find("sample 5"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("it broke"), std::string::npos) << error.what();
  }
  Breaking::left_to_break = 0;
}

TEST_F(TrajectoriesTest, AProgramThatAPolicyNamesIsNotRun) {  // TRJ-4
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / fmt::format("named_{}", ::getpid());
  std::filesystem::create_directories(folder);
  const std::filesystem::path evil = folder / "python3", mark = folder / "was-run";
  std::ofstream(evil) << "#!/bin/sh\ntouch " << mark.string() << "\n";
  std::filesystem::permissions(evil, std::filesystem::perms(0777));
  rl::Policy policy = some_policy("CartPole-v1");
  policy.env.id = "gym:CartPole-v1";
  for (const std::string& named : {evil.string(), std::string("folder/python3"), folder.string() + "/x/../python3"}) {
    policy.env.python = named;
    const std::string why = refusal({{"policy", saved(policy)}}, troupe::ErrorCode::kInvalidArgument);
    EXPECT_NE(why.find("which is not run"), std::string::npos) << why;
    EXPECT_NE(why.find("--python"), std::string::npos) << why;
  }
  EXPECT_FALSE(std::filesystem::exists(mark));
  std::filesystem::remove_all(folder);
}

// Through the bridge: the Python that `cmake/install-deps rl` makes.
TEST_F(TrajectoriesTest, GymnasiumsCartPoleGivesTheEpisodesOfOurs) {
  const char* named = std::getenv("TROUPE_RL_PYTHON");
  const std::string python = named != nullptr ? named : TROUPE_DEFAULT_RL_PYTHON;
  if (std::system((python + " -c 'import gymnasium' > /dev/null 2>&1").c_str()) != 0) {
    if (std::getenv("TROUPE_REQUIRE_GYMNASIUM") != nullptr) FAIL() << python << " has no gymnasium";
    GTEST_SKIP() << python << " has no gymnasium: cmake/install-deps rl";
  }
  const Typed own{{"policy", saved(some_policy("CartPole-v1"))}, {"mixture", "sample,random"}};
  Typed bridged = own;
  bridged.emplace_back("env", "gym:CartPole-v1"), bridged.emplace_back("python", python);
  bridged.emplace_back("envs", "4");
  const GeneratorContext context{.seed = 6, .isa = troupe::kernels::best_isa()};
  const auto generator = make(trajectories(), bridged, context);
  const std::vector<std::string> expected = samples_of(*make(trajectories(), own, context), {0, 12});
  EXPECT_TRUE(samples_of(*generator, {0, 12}) == expected);
  EXPECT_EQ(samples_of(*generator, {7, 8}).at(0), expected[7]);
}

}  // namespace

// SET-1 to SET-3, ENS-1, RCF-1, RCL-2: settings from text, YAML and JSON, and what environments they make.
#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/config/presets.h"
#include "apps/rl/config/algorithm_config.h"
#include "apps/rl/config/learner_gpu.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/config/setting.h"

namespace {

using namespace rl;

struct Knobs {
  bool flag = false;
  std::int64_t whole = 3;
  std::uint64_t count = 4;
  double real = 0.5;
  std::string word = "tanh";
  std::vector<std::size_t> list{64, 64};
};

std::vector<Setting> settings_of(Knobs& k) {
  return {{.name = "flag", .help = "", .value = &k.flag},
          {.name = "whole", .help = "", .value = &k.whole, .least = -5, .most = 10},
          {.name = "count", .help = "", .value = &k.count, .least = 1},
          {.name = "learning_rate", .help = "", .value = &k.real, .least = 0},
          {.name = "word", .help = "", .value = &k.word, .choices = {"tanh", "relu"}},
          {.name = "list", .help = "", .value = &k.list, .least = 1}};
}

TEST(Settings, TextIsReadByTheTypeOfTheSetting) {
  Knobs k;
  const auto settings = settings_of(k);
  const auto set = [&](const char* name, const char* text) {
    for (const Setting& s : settings)
      if (s.name == name) return assign_text(s, text).ok();
    return false;
  };
  EXPECT_TRUE(set("flag", "true") && set("whole", "-5") && set("learning_rate", "1e-3") && set("word", "relu"));
  EXPECT_TRUE(set("list", "128,32"));
  EXPECT_TRUE(k.flag);
  EXPECT_EQ(k.whole, -5);
  EXPECT_DOUBLE_EQ(k.real, 1e-3);
  EXPECT_EQ(k.word, "relu");
  EXPECT_EQ(k.list, (std::vector<std::size_t>{128, 32}));
  EXPECT_TRUE(set("list", "")) << "no hidden layer";
  EXPECT_TRUE(k.list.empty());
  EXPECT_EQ(flag_of(settings[3]), "--learning-rate");
}

TEST(Settings, SET1_AnotherTypeOrRangeIsRefusedByNameAndChangesNothing) {
  struct Wrong {
    const char* name;
    boost::json::value value;
    const char* says;
  };
  const std::vector<Wrong> wrong{{"flag", 1, "true or false"},
                                 {"whole", 11, "whole is a whole number from -5 to 10, not 11"},
                                 {"whole", 1.5, "whole number"},
                                 {"whole", 1e300, "whole number"},
                                 {"count", -1, "whole number from 1 on"},
                                 {"learning_rate", "fast", "learning_rate is a number from 0 on, not \"fast\""},
                                 {"learning_rate", -1, "from 0 on"},
                                 {"word", "gelu", "one of tanh, relu"},
                                 {"list", boost::json::array{64, 0}, "list of whole numbers"},
                                 {"list", 64, "list of whole numbers"}};
  for (const Wrong& one : wrong) {
    Knobs k;
    const auto before = to_json(settings_of(k));
    const auto status = assign_all(settings_of(k), {{one.name, one.value}});
    ASSERT_FALSE(status.ok()) << one.name;
    EXPECT_EQ(status.error().code(), troupe::ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message().find(one.says), std::string::npos) << status.error().message();
    EXPECT_EQ(to_json(settings_of(k)), before);
  }
}

TEST(Settings, SET2_AnUnknownNameHasTheNearestOne) {
  Knobs k;
  const auto status = assign_all(settings_of(k), {{"lerning_rate", 1}});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("did you mean 'learning_rate'?"), std::string::npos);
}

TEST(Settings, SET3_JsonAndYamlReadBack) {
  RunConfig config;
  config.env = {.id = "gym:ALE/Pong-v5", .kwargs = R"({"frameskip": 1, "note": "a: b # c"})", .frame_stack = 4};
  config.network = {.hidden = {}, .activation = "relu", .convolutions = "16x3x1"};
  config.seed = 18446744073709551615u;
  config.ppo.learning_rate = 2.5e-4;
  RunConfig read;
  ASSERT_TRUE(assign_all(settings_of(read), to_json(settings_of(config))).ok());
  EXPECT_EQ(read, config);
  RunConfig again;
  const auto yaml = parse_yaml(to_yaml(settings_of(config)), "here");
  ASSERT_TRUE(yaml.ok()) << yaml.error().message();
  const auto status = assign_all(settings_of(again), *yaml);
  ASSERT_TRUE(status.ok()) << status.error().message();
  EXPECT_EQ(again, config);
}

TEST(Settings, SET3_ThoseOfEveryAlgorithmReadBack) {
  for (const std::string& algo : algorithm_names()) {
    RunConfig config = defaults_of(algo).value();
    config.evaluation.threshold = -180;
    config.sac.temperature = 0.2;
    const auto yaml = parse_yaml(to_yaml(settings_of(config)), "here").value();
    RunConfig wanted = config;
    if (algo != "sac") wanted.sac.temperature.reset();
    EXPECT_EQ(config_from(yaml).value(), wanted) << algo;
  }
}

TEST(Settings, AnOptionalNumberIsANumberOrAuto) {
  RunConfig config = defaults_of("sac").value();
  const auto settings = settings_of(config);
  const auto setting = *std::ranges::find(settings, "temperature", &Setting::name);
  EXPECT_EQ(text_of(setting), "auto");
  ASSERT_TRUE(assign_text(setting, "0.1").ok());
  EXPECT_EQ(config.sac.temperature, 0.1);
  EXPECT_FALSE(assign_text(setting, "-1").ok());
  EXPECT_FALSE(assign_text(setting, "warm").ok());
  EXPECT_EQ(config.sac.temperature, 0.1) << "a refused value changes nothing";
  ASSERT_TRUE(assign_text(setting, "auto").ok());
  EXPECT_FALSE(config.sac.temperature.has_value());
}

TEST(RunConfig, RCF1_ADeviceThatALearnerDoesNotHaveIsRefusedByName) {
  for (const std::string& algo : algorithm_names()) {
    SCOPED_TRACE(algo);
    EXPECT_TRUE(config_from({{"algo", algo}, {"device", "cpu"}}).ok());
    EXPECT_FALSE(config_from({{"algo", algo}, {"device", "tpu"}}).ok());
    const auto cuda = config_from({{"algo", algo}, {"device", "cuda"}});
    const std::set<std::string> learn_there{"a2c", "bc", "dqn", "impala", "ppo", "sac"};
    const bool ours = learn_there.contains(algo);
    EXPECT_EQ(cuda.ok(), ours);
    if (ours) continue;
    EXPECT_EQ(cuda.error().code(), troupe::ErrorCode::kInvalidArgument);
    EXPECT_EQ(cuda.error().message(), "device cuda: the learner of " + algo + " calculates on the CPU only");
  }
}

TEST(RunConfig, ALearnerCalculatesOnTheGpuThatItWasGiven) {
  EXPECT_FALSE(learner_gpu({.device = "cpu"}).has_value());
  EXPECT_EQ(with_gpu({.device = "cpu"}, std::array{3}).device, "cpu");
  EXPECT_EQ(with_gpu({.device = "cuda"}, {}).device, "cuda");
  EXPECT_EQ(with_gpu({.device = "cuda"}, std::array{3, 4}).device, "cuda:3");
}

TEST(RunConfig, TheAlgorithmDecidesWhichSettingsThereAre) {
  EXPECT_EQ(config_from({}).value(), RunConfig());
  EXPECT_EQ(config_from({{"algo", "sac"}}).value().env.id, "Pendulum-v1");
  EXPECT_EQ(config_from({{"learning_rate", 0.5}, {"algo", "dqn"}}).value().dqn.learning_rate, 0.5);
  const auto says = [](const boost::json::object& given, const char* word) {
    const auto config = config_from(given);
    ASSERT_FALSE(config.ok());
    EXPECT_NE(config.error().message().find(word), std::string::npos) << config.error().message();
  };
  says({{"algo", "dqm"}}, "did you mean 'dqn'?");
  says({{"algo", "dqn"}, {"clip", 0.1}}, "'clip' is a setting of ppo, not of dqn");
  says({{"algo", "sac"}, {"tempurature", 0.1}}, "did you mean 'temperature'?");
  RunConfig none;
  none.algo = "none";
  EXPECT_THROW(settings_of(none), troupe::InvalidArgumentError);
}

TEST(Presets, EachIsAConfigurationWithAnEnvironmentThatItFits) {
  ASSERT_FALSE(preset_names().empty());
  for (const std::string& name : preset_names()) {
    const auto config = config_from(preset(name).value());
    ASSERT_TRUE(config.ok()) << name << ": " << config.error().message();
    if (config->env.id.find("gym:") != std::string::npos) continue;  // it needs a Python that not everybody has
    const auto task = task_of(*config);
    EXPECT_TRUE(task.ok()) << name << ": " << task.error().message();
  }
  const auto unknown = preset("dqn-cartpol");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message().find("did you mean 'dqn-cartpole'?"), std::string::npos);
}

TEST(Settings, YamlThatIsNoneIsToldWithItsLine) {
  const auto refused = [](const char* text, const char* word) {
    const auto read = parse_yaml(text, "preset.yaml");
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_NE(read.error().message().find("preset.yaml"), std::string::npos);
    EXPECT_NE(read.error().message().find(word), std::string::npos) << read.error().message();
  };
  refused("seed: 1\nclip: [1, 2\n", "line 3");
  refused("- 1\n- 2\n", "mapping");
  refused("seed: {a: 1}\n", "line 1");
  refused("seed: 1\nseed: 2\n", "twice");
  EXPECT_TRUE(parse_yaml("", "empty").value().empty());
  EXPECT_EQ(parse_yaml("env: \"1\"\n", "quoted").value().at("env").as_string(), "1");
  EXPECT_EQ(read_yaml("/nowhere/preset.yaml").error().code(), troupe::ErrorCode::kNotFound);
}

TEST(RunConfig, ItsTaskHasThePolicyOfItsSpacesAndItsErrorsAreThoseOfItsParts) {
  RunConfig pendulum;
  pendulum.env = {.id = "Pendulum-v1", .normalize_observation = true, .normalize_reward = true};
  pendulum.network.hidden = {32};
  const Task task = task_of(pendulum).value();
  const auto& policy = std::get<PolicySpec>(task.policy);
  EXPECT_EQ(policy.networks.policy.hidden, (std::vector<std::size_t>{32}));
  EXPECT_EQ(policy.networks.log_stds, 1u);
  EXPECT_EQ(task.moments.size(), 2u);
  EXPECT_FALSE(task.specs.reward_threshold.has_value());

  const auto refused = [](auto change, const char* word) {
    RunConfig config;
    change(config);
    const auto made = task_of(config);
    ASSERT_FALSE(made.ok()) << word;
    EXPECT_NE(made.error().message().find(word), std::string::npos) << made.error().message();
  };
  refused([](RunConfig& c) { c.env.id = "CartPol-v1"; }, "CartPole-v1");
  refused([](RunConfig& c) { c.env.kwargs = "[1]"; }, "env_kwargs is a JSON object");
  refused([](RunConfig& c) { c.network.convolutions = "16x3"; }, "FILTERSxKERNELxSTRIDE");
  refused([](RunConfig& c) { c.network.convolutions = "16x3x1"; }, "dimensions");
}

TEST(EnvSetup, ENS1_ReturnsAreRawWhateverIsPutAround) {
  EnvSetup setup{.id = "Pendulum-v1", .max_episode_steps = 5, .normalize_observation = true, .normalize_reward = true,
                 .clip_reward = 0.1};
  MadeEnv wrapped = MadeEnv::make(setup, {.num_envs = 1}).value();
  MadeEnv frozen = MadeEnv::make(setup, {.num_envs = 1, .frozen = true}).value();
  frozen.sync(wrapped.moments());
  StepBuffers one(wrapped.env()), other(frozen.env());
  const std::uint64_t seed = 3;
  wrapped.env().reset(std::span(&seed, 1)), frozen.env().reset(std::span(&seed, 1));
  const std::vector<float> torque{5.0f};  // more than it can: clipped
  double sum = 0;
  for (int t = 0; t < 5; ++t) {
    wrapped.env().step(ConstRows(std::span(torque), 1), one.out());
    frozen.env().step(ConstRows(std::span(torque), 1), other.out());
    sum += other.reward[0];
  }
  ASSERT_EQ(wrapped.env().ends().env.size(), 1u);
  EXPECT_DOUBLE_EQ(wrapped.env().ends().returns[0], sum);
  EXPECT_DOUBLE_EQ(frozen.env().ends().returns[0], sum);
  EXPECT_LT(sum, -0.5) << "neither clipped nor divided";
  const Moments deltas = wrapped.take_deltas();
  ASSERT_EQ(deltas.size(), 2u);
  EXPECT_GE(deltas[0].count(), 5);
  EXPECT_EQ(frozen.take_deltas()[0].count(), 0) << "nothing is learned when it is frozen";
}

TEST(RunningMoments, SavedOnesComeBackAndOthersAreRefused) {
  RunningMoments moments = RunningMoments::with_prior(2);
  const std::vector<double> rows{1, 2, 3, 4};
  ASSERT_TRUE(moments.add(std::span<const double>(rows)));
  EXPECT_EQ(RunningMoments::restore(moments.save()), moments);
  EXPECT_THROW(static_cast<void>(RunningMoments::restore(std::vector<double>{1, 2})), troupe::SerializationError);
  EXPECT_THROW(static_cast<void>(RunningMoments::restore({})), troupe::SerializationError);
  EXPECT_THROW(static_cast<void>(RunningMoments::restore(std::vector<double>{-1, 2, 3})), troupe::SerializationError);
}

TEST(AlgorithmConfig, ALC1_WhatCannotBeRunIsNotRegistered) {
  const AlgorithmConfig& ppo = *algorithm_config("ppo").value();
  const auto refused = [](AlgorithmConfig algorithm, const char* why) {
    try {
      register_algorithm(std::move(algorithm));
      ADD_FAILURE() << why;
    } catch (const troupe::InvalidArgumentError& error) {
      EXPECT_NE(std::string(error.message()).find(why), std::string::npos) << error.message();
    }
  };
  const std::size_t before = algorithm_configs().size();
  refused(ppo, "there is an algorithm 'ppo' already");
  refused({.name = "", .policy = ppo.policy, .learner = ppo.learner}, "needs a name");
  refused({.name = "mine", .learner = ppo.learner}, "needs a name, a policy");
  refused({.name = "mine", .policy = ppo.policy}, "and a learner");
  EXPECT_EQ(algorithm_configs().size(), before);
  EXPECT_NE(std::string(algorithm_config("pqo").error().message()).find("did you mean 'ppo'"), std::string::npos);
}

TEST(AlgorithmConfig, ALC2_SettingsOfAnotherAlgorithmAreToldWhoseTheyAre) {
  const auto wrong = [](const char* algo, const char* name) {
    return std::string(config_from({{"algo", algo}, {name, 1}}).error().message());
  };
  EXPECT_EQ(wrong("ars", "clip"), "'clip' is a setting of ppo, not of ars");
  EXPECT_EQ(wrong("ars", "horizon"), "'horizon' means nothing to ars");
  EXPECT_EQ(wrong("bc", "num_workers"), "'num_workers' means nothing to bc");
  EXPECT_NE(wrong("bc", "minibatsh").find("did you mean 'minibatch'"), std::string::npos);
}

TEST(RunConfigTest, SettingsAreToldAsTheyWereResolved) {
  RunConfig config = config_from({{"algo", "sac"}, {"env", "Pendulum-v1"}, {"hidden", {32, 16}}}).value();
  const std::string text = settings_text(config);
  for (const char* told : {" algo=sac ", "env=Pendulum-v1", "hidden=32,16", "learning_rate=0.0003", "gamma=0.99"})
    EXPECT_NE(text.find(told), std::string::npos) << told << " in " << text;
  EXPECT_EQ(text.find("gym_import="), std::string::npos) << "it is empty";
  EXPECT_EQ(text.find("gae_lambda"), std::string::npos) << "SAC has none";
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
  EXPECT_EQ(begin, text.size());
}

TEST(EnvSetupTest, ActionsAreRescaledOnDemand) {
  EnvSetup setup{.id = "Pendulum-v1"};
  const auto steps_reward = [&](float action) {
    MadeEnv made = MadeEnv::make(setup, {}).value();
    made.env().reset(std::vector<std::uint64_t>{3});
    OwnedRows actions(made.specs().action_space, 1);
    actions.as<float>()[0] = action;
    StepBuffers out(made.env());
    made.env().step(std::as_const(actions).view(), out.out());
    return out.reward[0];
  };
  const double half = steps_reward(1), all = steps_reward(2);  // of a torque from -2 to 2
  setup.rescale_action = true;
  EXPECT_EQ(steps_reward(0.5f), half);
  EXPECT_EQ(steps_reward(1), all);
  EXPECT_EQ(steps_reward(7), all) << "clipped before it is stretched";
  const auto seen = MadeEnv::make(setup, {.clip_action = false});
  const auto& box = std::get<Box>(seen->specs().action_space);
  EXPECT_EQ(box.low_of(0), -1);
  EXPECT_EQ(box.high_of(0), 1);
  setup.id = "CartPole-v1";
  EXPECT_FALSE(MadeEnv::make(setup, {}).ok());
}

}  // namespace

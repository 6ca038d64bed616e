// RCK-1, RCK-2, RCK-3: what is on disk is whole, and anything else is a clear error.
#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include <gtest/gtest.h>

#include "apps/common/output_file.h"
#include "apps/common/safetensors/safetensors.h"
#include "apps/rl/config/algorithms/ppo.h"
#include "apps/rl/envs/batch_of.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/training/checkpoint.h"
#include "apps/rl/training/collect.h"
#include "apps/rl/training/evaluate.h"
#include "tests/base/temporary_folder.h"

namespace {

using namespace rl;
namespace fs = std::filesystem;
using troupe::test::bytes_of;
using troupe::test::put;
using troupe::test::TemporaryFolder;

const Task& cartpole() {
  static const Task task = task_of({}).value();
  return task;
}

Checkpoint sample() {
  PpoLearner learner(ppo_options({.seed = 3}, std::get<PolicySpec>(cartpole().policy)));
  Checkpoint out;
  out.learner = learner.save();
  std::vector<float> moment = out.learner.get<float>("adam/first_moment");
  moment[5] = 0.25f;
  out.learner.put("adam/first_moment", std::move(moment));
  out.learner.put_one<std::int64_t>("adam/steps", 12), out.learner.put_one<std::int64_t>("env_steps", 4096);
  out.policy = {.spec = cartpole().policy,
                .params = out.learner.get<float>("params"),
                .seed = 3,
                .steps = 4096,
                .mean_return = 77.5};
  out.config = {
      .seed = 3, .num_workers = 4, .num_envs = 5, .horizon = 6, .total_steps = 7000, .stop_when_solved = false};
  out.log.steps = 4096, out.log.recent = {10, 20}, out.log.recent_lengths = {11, 21};
  out.log.curve = {{100, 15.0f}, {200, 20.0f}};
  out.log.faults = {1, 2, 3};
  out.log.metrics = {"kl", "entropy"}, out.log.learning = {{100, {0.01f, 0.6f}}, {200, {0.02f, 0.5f}}};
  return out;
}

TEST(CheckpointFile, EverythingComesBack) {
  TemporaryFolder folder;
  const Checkpoint before = sample();
  ASSERT_TRUE(save_checkpoint(folder / "c.bin", before).ok());
  EXPECT_EQ(folder.files(), 1u) << "nothing is left aside";
  const auto after = load_checkpoint(folder / "c.bin");
  ASSERT_TRUE(after.ok()) << after.error().message();
  EXPECT_EQ(after->learner, before.learner);
  EXPECT_EQ(after->config, before.config);
  EXPECT_EQ(after->log.recent, before.log.recent);
  EXPECT_EQ(after->log.recent_lengths, before.log.recent_lengths);
  EXPECT_EQ(after->log.curve.size(), 2u);
  ASSERT_EQ(after->log.learning.size(), 2u);
  EXPECT_EQ(after->log.faults, before.log.faults);
  EXPECT_EQ(after->log.metrics, before.log.metrics);
  EXPECT_EQ(after->log.learning[1].values[1], 0.5f);
  EXPECT_NEAR(after->log.last("kl").value(), 0.02, 1e-6);
  EXPECT_EQ(after->log.solved_steps, -1);
  const auto policy = load_policy(folder / "c.bin");
  ASSERT_TRUE(policy.ok());
  EXPECT_EQ(policy->params, before.policy.params);
}

TEST(CheckpointFile, CK3_TheRestoredLearnerIsTheSavedOne) {
  TemporaryFolder folder;
  PpoLearner learner(ppo_options({.seed = 5}, std::get<PolicySpec>(cartpole().policy)));
  const PolicySpec& policy = std::get<PolicySpec>(cartpole().policy);
  OwnedSamples batch(on_policy_columns(policy.observation_space, policy.action_space), 300);
  Generator random(1);
  for (float& v : batch.column("obs").as<float>()) v = static_cast<float>(random.uniform(-1, 1));
  for (float& v : batch.column("advantage").as<float>()) v = static_cast<float>(random.uniform(-1, 1));
  for (float& v : batch.column("log_prob").as<float>()) v = -0.69f;
  const std::vector<SampleView> views{batch.view()};
  learner.update(views);
  Checkpoint checkpoint = sample();
  checkpoint.learner = learner.save();
  checkpoint.policy.params = checkpoint.learner.get<float>("params");
  ASSERT_TRUE(save_checkpoint(folder / "c.bin", checkpoint).ok());
  PpoLearner resumed(ppo_options({.seed = 6}, std::get<PolicySpec>(cartpole().policy)));
  resumed.restore(load_checkpoint(folder / "c.bin").value().learner);
  learner.update(views);
  resumed.update(views);
  EXPECT_TRUE(std::equal(learner.params().begin(), learner.params().end(), resumed.params().begin()));
}

TEST(CheckpointFile, CK2_EveryTruncationIsAClearError) {
  TemporaryFolder folder;
  ASSERT_TRUE(save_checkpoint(folder / "c.bin", sample()).ok());
  const std::string whole = bytes_of(folder / "c.bin");
  for (std::size_t size = 0; size < whole.size(); size += size < 64 ? 1 : 4999) {
    put(folder / "cut.bin", whole.substr(0, size));
    const auto got = load_checkpoint(folder / "cut.bin");
    ASSERT_FALSE(got.ok()) << size;
    EXPECT_EQ(got.error().code(), troupe::ErrorCode::kSerialization) << size;
    const char* word = size < 8 ? "no safetensors file" : "truncated";
    EXPECT_NE(got.error().message().find(word), std::string::npos) << size << ": " << got.error().message();
  }
}

TEST(CheckpointFile, CK2_ForeignDamagedNewerLongerAndMissingFilesAreTold) {
  TemporaryFolder folder;
  ASSERT_TRUE(save_checkpoint(folder / "c.bin", sample()).ok());
  const std::string whole = bytes_of(folder / "c.bin");
  const auto expect_message = [&](std::string bytes, const char* word) {
    put(folder / "x.bin", bytes);
    const auto got = load_checkpoint(folder / "x.bin");
    ASSERT_FALSE(got.ok()) << word;
    EXPECT_NE(got.error().message().find(word), std::string::npos) << got.error().message();
  };
  expect_message("#!/bin/sh\necho this is another kind of file, long enough for a head\n", "no safetensors file");
  ASSERT_TRUE(apps::write_safetensors(folder / "other.bin", {{"made by", "another program"}}, {}).ok());
  expect_message(bytes_of(folder / "other.bin"), "foreign");
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  expect_message(flipped, "hash");
  ASSERT_TRUE(apps::write_safetensors(folder / "newer.bin", {{"troupe.rl", "checkpoint 9"}}, {}).ok());
  expect_message(bytes_of(folder / "newer.bin"), "version 9");
  expect_message(whole + "x", "bytes too many");
  const auto missing = load_checkpoint(folder / "none.bin");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), troupe::ErrorCode::kNotFound);
}

// Before, its parameters went to a network that they did not fit.
TEST(CheckpointFile, RCK2_ACheckpointOfAnotherNetworkIsRefused) {
  TemporaryFolder folder;
  Checkpoint other = sample();
  auto& networks = std::get<PolicySpec>(other.policy.spec).networks;
  networks.policy.hidden[0] = networks.value.hidden[0] = 8;
  other.policy.params.assign(networks.parameter_count(), 0.5f);
  for (const char* name : {"params", "adam/first_moment", "adam/second_moment"})
    other.learner.put(name, other.policy.params);
  ASSERT_TRUE(save_checkpoint(folder / "c.bin", other).ok());
  const auto got = load_checkpoint(folder / "c.bin");
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code(), troupe::ErrorCode::kSerialization);
  EXPECT_NE(got.error().message().find("make no checkpoint"), std::string::npos) << got.error().message();
}

// NPG-1. What the user typed, or the run that wrote the file, is not asked about.
TEST(CheckpointFile, RCK2_AProgramOfSomebodyElsesIsRefusedBeforeTheEnvironmentIsMade) {
  TemporaryFolder folder;
  ASSERT_TRUE(fs::create_directory(folder / "shared"));
  fs::permissions(folder / "shared", fs::perms::all);
  put(folder / "shared" / "python", "#!/bin/false\n");
  Checkpoint named = sample();
  named.config.env.python = named.policy.env.python = folder / "shared/python";
  ASSERT_TRUE(save_checkpoint(folder / "c.bin", named).ok());
  for (const troupe::ErrorPtr& error : {load_checkpoint(folder / "c.bin").error_ptr(),
                                        load_policy(folder / "c.bin").error_ptr()}) {
    ASSERT_NE(error, nullptr);
    EXPECT_EQ(error->code(), troupe::ErrorCode::kInvalidArgument);
    EXPECT_NE(error->message().find("a file names the program"), std::string::npos) << error->message();
    EXPECT_EQ(error->message().find("damaged"), std::string::npos) << error->message();
  }
  for (const LoadOptions& options : {LoadOptions{.own = &named.config.env},
                                     LoadOptions{.python = named.config.env.python}}) {
    const auto ours = load_checkpoint(folder / "c.bin", options);
    ASSERT_TRUE(ours.ok()) << ours.error().message();
    EXPECT_EQ(ours->config, named.config);
  }
  // A prefix does not hide what is run.
  for (const char* id : {"gym:X-v0", "throw:gym:X-v0", "exit:stall:gym:X-v0"})
    EXPECT_FALSE(check_programs({.id = id, .python = folder / "shared/python"}).ok()) << id;
}

/// One environment whose second step throws, in each episode.
class BreaksOff {
 public:
  void seed(std::uint64_t) {}
  void begin() { steps_ = 0; }
  void check(ConstRows, std::size_t) const {}
  StepOutcome step(ConstRows, std::size_t) {
    if (++steps_ == 2) throw std::runtime_error("it diverged");
    return {.reward = 1, .terminated = false};
  }
  void observe(Rows row) const { std::ranges::fill(row.as<float>(), 0.0f); }

 private:
  int steps_ = 0;
};

/// An evaluation waited for the end of an episode, for ever.
TEST(CheckpointFile, APolicyWhoseEnvironmentBreaksOffEveryEpisodeIsNotPlayedForEver) {
  Policy policy = sample().policy;
  const auto factory = [](std::string_view id,
                          const BatchEnvOptions& options) -> troupe::Result<std::unique_ptr<BatchEnv>> {
    EnvSpecs specs = make_batch_env("CartPole-v1", {.num_envs = 1}).value()->specs();
    specs.id = id;
    return batch_of(BreaksOff(), std::move(specs), options);
  };
  ASSERT_TRUE(register_env("BreaksOff-v0", factory).ok());
  policy.env.id = "BreaksOff-v0";
  try {
    (void)evaluate(policy, {.episodes = 20});
    FAIL() << "it was played";
  } catch (const troupe::RuntimeEnvError& error) {
    EXPECT_NE(std::string(error.what()).find("100 episodes in a row"), std::string::npos) << error.what();
  }
}

// Before, 'record' and 'collect' wrote actions of one space into rows of another.
TEST(CheckpointFile, APolicyThatDoesNotFitItsEnvironmentIsNotPlayed) {
  Policy policy = sample().policy;
  const MadeEnv made = MadeEnv::make(policy.env, {.frozen = true}).value();
  EXPECT_TRUE(check_fits(policy, made).ok());
  Policy longer = policy;
  longer.params.push_back(0);
  const PolicySpec several = policy_for(made.specs().observation_space, MultiDiscrete{.nvec = {2, 2, 2}}).value();
  policy.spec = several;
  policy.params.assign(parameter_count_of(policy.spec), 0.0f);
  for (const Policy& other : {policy, longer}) {
    EXPECT_EQ(check_fits(other, made).error().code(), troupe::ErrorCode::kInvalidArgument);
    EXPECT_FALSE(collect(other, {.episodes = 1}).ok());
    EXPECT_FALSE(evaluate(other, {.episodes = 1}).ok());
  }
}

TEST(CheckpointFile, ModulesOfTheWorkingFolderAreForNamesThatWereTyped) {
  const EnvSetup plain{.id = "gym:X-v0"}, imports{.id = "gym:X-v0", .gym_import = "m"};
  const EnvSetup inside{.id = "throw:gym:m:X-v0"};
  EXPECT_TRUE(typed_modules(plain, {{"env", "gym:X-v0"}}));
  EXPECT_TRUE(typed_modules(inside, {{"env", "throw:gym:m:X-v0"}}));
  EXPECT_TRUE(typed_modules(imports, {{"gym_import", "m"}}));
  EXPECT_FALSE(typed_modules(imports, {{"env", "gym:X-v0"}})) << "the import is the file's";
  EXPECT_FALSE(typed_modules(inside, {{"gym_import", "m"}})) << "so is the module before the name";
  EXPECT_FALSE(typed_modules(plain, {{"python", "python3"}}));
}

TEST(CheckpointFile, APolicyIsAnArrayALayer) {
  TemporaryFolder folder;
  const Policy policy = sample().policy;
  ASSERT_TRUE(save_policy(folder / "p.bin", policy).ok());
  const auto file = apps::read_safetensors(folder / "p.bin");
  ASSERT_TRUE(file.ok());
  std::vector<std::string> names;
  for (const auto& entry : file->entries) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"policy/hidden0/weight", "policy/hidden0/bias", "policy/hidden1/weight",
                                             "policy/hidden1/bias", "policy/output/weight", "policy/output/bias",
                                             "value/hidden0/weight", "value/hidden0/bias", "value/hidden1/weight",
                                             "value/hidden1/bias", "value/output/weight", "value/output/bias"}));
  EXPECT_EQ(file->find("policy/hidden0/weight")->shape, (std::vector<std::size_t>{64, 4}));
  const auto back = load_policy(folder / "p.bin");
  ASSERT_TRUE(back.ok()) << back.error().message();
  EXPECT_EQ(back->params, policy.params);
  EXPECT_EQ(back->spec, policy.spec);
  EXPECT_EQ(back->steps, policy.steps);
}

TEST(CheckpointFile, CK2_APolicyCannotBeResumed) {
  TemporaryFolder folder;
  ASSERT_TRUE(save_policy(folder / "p.bin", sample().policy).ok());
  EXPECT_TRUE(load_policy(folder / "p.bin").ok());
  const auto got = load_checkpoint(folder / "p.bin");
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().message().find("not a checkpoint"), std::string::npos);
}

TEST(CheckpointFile, CK1_AFailedWriteLeavesTheOldFileAndNothingAside) {
  TemporaryFolder folder;
  fs::create_directory(folder / "taken");
  put(folder / "taken" / "inside", "x");
  EXPECT_FALSE(apps::write_file(folder / "taken", "new").ok()) << "a folder cannot be replaced by a file";
  EXPECT_EQ(folder.files(), 1u);
  EXPECT_FALSE(apps::write_file(folder / "taken" / "inside" / "below", "new").ok());
  EXPECT_EQ(bytes_of(folder / "taken" / "inside"), "x");
}

TEST(CheckpointFile, APlaceThatCannotBeWrittenIsToldBeforehand) {
  TemporaryFolder folder;
  put(folder / "file", "x");
  EXPECT_TRUE(apps::check_writable(folder / "new" / "deep" / "c.bin").ok());
  EXPECT_FALSE(apps::check_writable(folder / "file" / "c.bin").ok()) << "below a file";
  EXPECT_FALSE(apps::check_writable(folder / "new").ok()) << "a folder";
  EXPECT_EQ(folder.files(), 2u);
}

}  // namespace

// MKR-1: a worker whose policy is another one than the driver's makes no shard.
#include <string>

#include <gtest/gtest.h>

#include "apps/datagen/formats/builtin.h"
#include "apps/datagen/generators/builtin.h"
#include "apps/datagen/run/makers.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/training/checkpoint.h"
#include "tests/base/temporary_folder.h"

namespace {

using namespace datagen;

void save_policy(const std::string& path, std::uint64_t seed) {
  rl::RunConfig config = rl::defaults_of("ppo").value();
  config.seed = seed;
  const rl::Task task = rl::task_of(config).value();
  const auto learner = rl::make_learner(config, task.policy);
  rl::save_policy(path, {.env = config.env,
                         .spec = task.policy,
                         .moments = task.moments,
                         .params = {learner->params().begin(), learner->params().end()}})
      .value();
}

TEST(Makers, AFileThatIsAnotherOneOnThisNodeIsFound) {  // MKR-1
  ASSERT_TRUE(register_builtin_generators().ok());
  ASSERT_TRUE(register_builtin_formats().ok());
  troupe::test::TemporaryFolder folder;
  const std::string path = (folder / "policy.bin").string();
  save_policy(path, 1);
  const JobConfig config = configure({.generator = "trajectories",
                                      .format = "jsonl",
                                      .generator_settings = {{"policy", path}},
                                      .format_settings = {},
                                      .samples = 10})
                               .value();
  EXPECT_NE(Maker::make(config.canonical()), nullptr);
  save_policy(path, 2);
  try {
    Maker::make(config.canonical());
    FAIL() << "another policy is played";
  } catch (const troupe::RuntimeEnvError& error) {
    EXPECT_NE(std::string(error.what()).find("policy_sha256"), std::string::npos) << error.what();
  }
}

}  // namespace

// BE-1 to BE-4 and BE-7 with real environments: the bridge to Gymnasium against Gymnasium's own SyncVectorEnv, and
// against our CartPole, bit for bit; GYM-4 as Gymnasium says it.
//
// They need the Python that `cmake/install-deps rl` makes. Without it each is skipped; under TROUPE_REQUIRE_GYMNASIUM,
// which .ci/run sets, it fails.
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/rl/config/env_setup.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/gym/gym_env.h"
#include "apps/rl/envs/sync_vector_env.h"

namespace rl {
namespace {

using std::chrono::milliseconds;

std::string python() {
  const char* named = std::getenv("TROUPE_RL_PYTHON");
  return named ? named : TROUPE_DEFAULT_RL_PYTHON;
}

class GymRealTest : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system((python() + " -c 'import gymnasium.envs.box2d, ale_py' > /dev/null 2>&1").c_str()) == 0) return;
    const std::string missing = python() + " has not gymnasium with box2d, and ale_py: cmake/install-deps rl";
    if (std::getenv("TROUPE_REQUIRE_GYMNASIUM")) FAIL() << missing;
    GTEST_SKIP() << missing;
  }

  static BatchEnvOptions options(std::size_t n, AutoReset mode = AutoReset::kSameStep) {
    return {.num_envs = n, .auto_reset = mode, .gym = {.python = python(), .step_deadline = milliseconds(60'000)}};
  }
  static std::string refused(const std::string& id, const BatchEnvOptions& options, troupe::ErrorCode code) {
    const auto made = make_batch_env(id, options);
    if (made.ok()) return "it was made";
    EXPECT_EQ(made.error().code(), code) << made.error().what();
    return made.error().what();
  }
};

/// The same as in gym_reference.py.
void choose(const Space& space, std::size_t t, OwnedRows& actions) {
  for (std::size_t i = 0; i < actions.view().rows(); ++i) {
    const std::size_t turn = 7 * t + 3 * i + t / 5;
    if (const Discrete* one = std::get_if<Discrete>(&space)) {
      actions.as<std::int64_t>()[i] = one->start + static_cast<std::int64_t>(turn % static_cast<std::size_t>(one->n));
      continue;
    }
    const double value = (static_cast<double>(turn % 11) - 5) / 5;
    for (float& x : actions.view().row(i).as<float>()) x = static_cast<float>(value);
  }
}

/// What the reference wrote, read piece by piece.
class Recorded {
 public:
  explicit Recorded(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
  }
  bool next_is(const void* data, std::size_t count) {
    if (at_ + count > bytes_.size()) return false;
    const bool same = std::memcmp(bytes_.data() + at_, data, count) == 0;
    at_ += count;
    return same;
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

struct Case {
  std::string id;
  std::size_t envs, steps;
  std::string import = {};
};

/// How many episodes ended; plays with both and compares every byte.
std::size_t compare(const Case& c, AutoReset mode, BatchEnvOptions options) {
  const std::string path = fmt::format("{}gym_{}.bin", testing::TempDir(), ::getpid());
  const std::string command =
      fmt::format("{} -W ignore {} {} {} {} {} 40 {} {}", python(), TROUPE_GYM_REFERENCE, c.id, c.envs,
                  mode == AutoReset::kSameStep ? "same" : "next", c.steps, path, c.import);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  Recorded recorded(path);
  std::filesystem::remove(path);

  options.gym.gym_import = c.import;
  const auto env = make_batch_env("gym:" + c.id, options).value();
  StepBuffers last(*env);
  OwnedRows actions(env->specs().action_space, c.envs);
  std::vector<std::uint64_t> seeds;
  for (std::size_t i = 0; i < c.envs; ++i) seeds.push_back(40 + i);
  env->reset(seeds);
  env->observe(last.obs.view());
  const auto obs_is_next = [&] { return recorded.next_is(last.obs.view().data(), last.obs.view().bytes()); };
  EXPECT_TRUE(obs_is_next()) << "first observations";
  std::size_t episodes = 0;
  for (std::size_t t = 0; t < c.steps; ++t) {
    choose(env->specs().action_space, t, actions);
    env->step(actions.view(), last.out());
    const EpisodeEnds ends = env->ends();
    episodes += ends.env.size();
    const std::uint32_t finals = static_cast<std::uint32_t>(ends.final_obs.rows());
    bool same = obs_is_next() && recorded.next_is(last.reward.data(), c.envs * sizeof(double)) &&
                recorded.next_is(last.terminated.data(), c.envs) && recorded.next_is(last.truncated.data(), c.envs) &&
                recorded.next_is(&finals, sizeof(finals));
    for (std::size_t j = 0; j < finals; ++j)
      same = same && recorded.next_is(&ends.env[j], sizeof(std::uint32_t)) &&
             recorded.next_is(ends.final_obs.row(j).data(), ends.final_obs.row_bytes());
    EXPECT_TRUE(same) << c.id << ", step " << t;
    if (!same) break;
  }
  EXPECT_TRUE(recorded.at_end());
  return episodes;
}

TEST_F(GymRealTest, BE2_SameStepIsGymnasiumsByteForByte) {
  EXPECT_GT(compare({"CartPole-v1", 3, 200}, AutoReset::kSameStep, options(3)), 10u);
  EXPECT_GT(compare({"LunarLander-v3", 2, 300}, AutoReset::kSameStep, options(2)), 3u);
  compare({"Pendulum-v1", 2, 210}, AutoReset::kSameStep, options(2));
  EXPECT_GT(compare({"FrozenLake-v1", 3, 100}, AutoReset::kSameStep, options(3)), 3u) << "an observation is a choice";
}

TEST_F(GymRealTest, BE3_NextStepIsGymnasiumsByteForByte) {
  EXPECT_GT(compare({"CartPole-v1", 3, 200}, AutoReset::kNextStep, options(3, AutoReset::kNextStep)), 10u);
  EXPECT_GT(compare({"LunarLander-v3", 2, 200}, AutoReset::kNextStep, options(2, AutoReset::kNextStep)), 1u);
}

TEST_F(GymRealTest, PongIsGymnasiumsByteForByte) {
  compare({"ALE/Pong-v5", 2, 60, "ale_py"}, AutoReset::kSameStep, options(2));
  BatchEnvOptions small = options(1);
  small.gym.gym_import = "ale_py";
  small.kwargs = {{"obs_type", "ram"}, {"frameskip", 2}};
  const auto ram = make_batch_env("gym:ALE/Pong-v5", small).value();
  EXPECT_EQ(to_string(ram->specs().observation_space), "Box(uint8, [128])") << "arguments reach gymnasium.make";
}

/// Breakout gives five lives, and takes one when the ball is lost.
TEST_F(GymRealTest, LivesAreThoseOfTheGame) {
  BatchEnvOptions two = options(2);
  two.gym.gym_import = "ale_py";
  const auto env = make_batch_env("gym:ALE/Breakout-v5", two).value();
  env->reset(std::vector<std::uint64_t>{1, 2});
  EXPECT_EQ(std::vector(env->lives().begin(), env->lives().end()), (std::vector<std::int32_t>{5, 5}));
  StepBuffers out(*env);
  OwnedRows actions(env->specs().action_space, 2);
  std::set<std::int32_t> seen;
  for (std::size_t t = 0; t < 600 && env->ends().env.empty(); ++t) {
    std::ranges::fill(actions.as<std::int64_t>(), t % 5 == 0 ? 1 : 0);  // fire, and stand still
    env->step(std::as_const(actions).view(), out.out());
    seen.insert(env->lives().begin(), env->lives().end());
  }
  EXPECT_EQ(*seen.rbegin(), 5);
  EXPECT_GE(seen.size(), 5u) << "a life was lost, and not seen";
  EXPECT_TRUE(make_batch_env("gym:CartPole-v1", options(1)).value()->lives().empty());
}

TEST_F(GymRealTest, AtariGamesAreSeenAndPlayedAsUsual) {
  const auto episodes = [&](const std::string& id, bool frozen) {
    EnvSetup setup{.id = id, .kwargs = R"({"frameskip": 1, "repeat_action_probability": 0})", .frame_stack = 4,
                   .atari = true, .python = options(1).gym.python, .gym_import = "ale_py"};
    MadeEnv made = MadeEnv::make(setup, {.num_envs = 2, .frozen = frozen}).value();
    EXPECT_EQ(to_string(made.specs().observation_space), "Box(uint8, [4, 84, 84])");
    made.env().reset(std::vector<std::uint64_t>{1, 2});
    StepBuffers out(made.env());
    OwnedRows actions(made.specs().action_space, 2);
    std::size_t ended = 0;
    for (std::size_t t = 0; t < 400; ++t) {
      std::ranges::fill(actions.as<std::int64_t>(), t % 5 == 0 ? 1 : 0);
      made.env().step(std::as_const(actions).view(), out.out());
      ended += made.env().ends().env.size();
    }
    const std::span<const std::uint8_t> picture = std::as_const(out.obs).as<std::uint8_t>();
    EXPECT_GT(std::set(picture.begin(), picture.end()).size(), 3u) << "a picture of one colour";
    return ended;
  };
  const std::size_t lives = episodes("gym:ALE/Breakout-v5", false), games = episodes("gym:ALE/Breakout-v5", true);
  EXPECT_GE(games, 2u);
  EXPECT_GT(lives, games) << "a life is an episode; each begins with fire, so they are not those of the games";
  EXPECT_EQ(episodes("gym:ALE/Pong-v5", false), 0u) << "no lives, and no game ends in 400 steps";
}

/// The same episodes as ours: seeds, actions, observations, returns, in all three modes.
TEST_F(GymRealTest, CartPoleIsOurs) {
  for (AutoReset mode : {AutoReset::kSameStep, AutoReset::kNextStep, AutoReset::kDisabled}) {
    BatchEnvOptions limited = options(3, mode);
    limited.max_episode_steps = 12;
    const auto theirs = make_batch_env("gym:CartPole-v1", limited).value();
    const auto ours = SyncVectorEnv::make("CartPole-v1", limited).value();
    EXPECT_EQ(theirs->specs().max_episode_steps, 12);
    EXPECT_EQ(theirs->specs().reward_threshold, 475.0);
    EXPECT_EQ(theirs->specs().action_space, ours->specs().action_space);
    const std::vector<std::uint64_t> seeds{1, 2, 0x7fffffff'00000003};
    theirs->reset(seeds), ours->reset(seeds);
    StepBuffers a(*theirs), b(*ours);
    OwnedRows actions(theirs->specs().action_space, 3);
    std::size_t truncated = 0;
    for (std::size_t t = 0; t < 100; ++t) {
      choose(theirs->specs().action_space, t, actions);
      theirs->step(actions.view(), a.out()), ours->step(actions.view(), b.out());
      ASSERT_EQ(std::memcmp(a.obs.view().data(), b.obs.view().data(), a.obs.view().bytes()), 0) << "step " << t;
      ASSERT_EQ(a.reward, b.reward);
      ASSERT_EQ(a.terminated, b.terminated);
      ASSERT_EQ(a.truncated, b.truncated);
      ASSERT_EQ(a.is_reset, b.is_reset);
      const EpisodeEnds x = theirs->ends(), y = ours->ends();
      ASSERT_TRUE(std::equal(x.env.begin(), x.env.end(), y.env.begin(), y.env.end()));
      ASSERT_TRUE(std::equal(x.returns.begin(), x.returns.end(), y.returns.begin(), y.returns.end()));
      ASSERT_TRUE(std::equal(x.lengths.begin(), x.lengths.end(), y.lengths.begin(), y.lengths.end()));
      ASSERT_EQ(x.final_obs.rows(), y.final_obs.rows());
      if (x.final_obs.rows() > 0) {
        ASSERT_EQ(std::memcmp(x.final_obs.data(), y.final_obs.data(), x.final_obs.bytes()), 0);
      }
      for (std::uint8_t flag : a.truncated) truncated += flag;
      if (mode == AutoReset::kDisabled)
        for (std::uint32_t env : x.env) theirs->reset_one(env), ours->reset_one(env);
    }
    EXPECT_GT(truncated, 0u) << "the time limit that was given is in force";
  }
}

TEST_F(GymRealTest, GYM4_WhatGymnasiumRefusesHasATypeAndSaysWhatToDo) {
  using troupe::ErrorCode;
  EXPECT_NE(refused("gym:CartPole-v7", options(1), ErrorCode::kNotFound).find("CartPole"), std::string::npos);
  EXPECT_NE(refused("gym:Nothing/Pong-v5", options(1), ErrorCode::kNotFound).find("import first"), std::string::npos);
  EXPECT_NE(refused("gym:Blackjack-v1", options(1), ErrorCode::kInvalidArgument).find("FlattenObservation"),
            std::string::npos);
  BatchEnvOptions wrong = options(1);
  wrong.kwargs = {{"gravitation", 3}};
  EXPECT_NE(refused("gym:CartPole-v1", wrong, ErrorCode::kInvalidArgument).find("gravitation"), std::string::npos);
  wrong = options(1);
  wrong.gym.gym_import = "no_such_module:register";
  EXPECT_NE(refused("gym:CartPole-v1", wrong, ErrorCode::kRuntimeEnv).find("no_such_module"), std::string::npos);
  wrong.gym.gym_import = "gymnasium:no_such_function";
  EXPECT_NE(refused("gym:CartPole-v1", wrong, ErrorCode::kRuntimeEnv).find("no_such_function"), std::string::npos);
}

TEST_F(GymRealTest, AFunctionIsCalledBeforeTheEnvironmentsAreMade) {
  BatchEnvOptions called = options(1);
  called.gym.gym_import = "gymnasium.envs.registration:registry.clear";
  EXPECT_NE(refused("gym:CartPole-v1", called, troupe::ErrorCode::kNotFound), "") << "there is no environment left";
}

/// Throws, exits and stalls on purpose inside of the Python process: every end is counted once, and as what it is.
TEST_F(GymRealTest, BE7_FaultsOfEachKindAreNoReturns) {
  BatchEnvOptions faulty = options(2);
  faulty.kwargs = {{"p", 0.02}, {"seconds", 60}};
  faulty.gym.step_deadline = milliseconds(500);
  faulty.gym.restarts = {.most = 1000};
  faulty.gym.back_off = milliseconds(1);
  faulty.gym.back_off_most = milliseconds(1);
  const auto env = make_batch_env("throw:exit:gym:CartPole-v1", faulty).value();
  env->reset(std::vector<std::uint64_t>{5, 6});
  StepBuffers last(*env);
  OwnedRows actions(env->specs().action_space, 2);
  std::vector<std::int64_t> length(2);
  std::size_t threw = 0, exited = 0, returns = 0;
  for (std::size_t t = 0; t < 400 && (threw == 0 || exited == 0 || returns < 5); ++t) {
    choose(env->specs().action_space, t, actions);
    env->step(actions.view(), last.out());
    for (const Fault& fault : env->faults()) {
      EXPECT_EQ(fault.length, length[fault.env]) << "good steps only";
      EXPECT_EQ(fault.partial_return, static_cast<double>(fault.length));
      EXPECT_EQ(last.is_reset[fault.env], 1);
      EXPECT_EQ(last.terminated[fault.env] + last.truncated[fault.env], 0);
      EXPECT_LT(std::abs(last.obs.as<float>()[4 * fault.env]), 0.05f) << "an episode's first observation";
      (fault.kind == FaultKind::kThrew ? threw : exited) += 1;
      EXPECT_NE(fault.what, "");
    }
    const EpisodeEnds ends = env->ends();
    for (std::size_t i = 0; i < 2; ++i) length[i] = last.is_reset[i] != 0 ? 0 : length[i] + 1;
    for (std::size_t j = 0; j < ends.env.size(); ++j) {
      EXPECT_EQ(ends.lengths[j], std::exchange(length[ends.env[j]], 0));
      ++returns;
    }
  }
  EXPECT_GT(threw, 0u);
  EXPECT_GT(exited, 0u);
  EXPECT_GE(returns, 5u);
}

/// Environments of broken_gym_env.py, which is found as any module of a user's is.
BatchEnvOptions broken(const std::string& how) {
  ::setenv("PYTHONPATH", TROUPE_BROKEN_GYM_ENVS, 1);
  BatchEnvOptions two{.num_envs = 2, .gym = {.python = python(), .gym_import = "broken_gym_env"}};
  two.kwargs = {{"how", how}};
  two.gym.restarts = {.most = 1};
  return two;
}

TEST_F(GymRealTest, GYM5_AnExceptionInAStepCostsThatEpisodeOnly) {
  const auto env = GymEnv::make("Broken-v0", broken("third step")).value();
  env->reset(std::vector<std::uint64_t>{3, 4});
  StepBuffers last(*env);
  OwnedRows actions(env->specs().action_space, 2);
  actions.as<std::int64_t>()[0] = 1;  // the first environment throws where the action is 1
  const int pid = env->pid();
  for (int t = 0; t < 2; ++t) env->step(actions.view(), last.out());
  EXPECT_TRUE(env->faults().empty());
  const float other = last.obs.as<float>()[2];
  env->step(actions.view(), last.out());
  ASSERT_EQ(env->faults().size(), 1u);
  EXPECT_EQ(env->faults()[0].env, 0u);
  EXPECT_EQ(env->faults()[0].kind, FaultKind::kThrew);
  EXPECT_EQ(env->faults()[0].length, 2);
  EXPECT_EQ(env->faults()[0].what, "ValueError: the simulator diverged");
  EXPECT_EQ(last.is_reset, (std::vector<std::uint8_t>{1, 0}));
  EXPECT_EQ(last.obs.as<float>()[1], 0.0f) << "an episode's first observation";
  EXPECT_NE(last.obs.as<float>()[0], 3.0f) << "of a seed that it has not had";
  EXPECT_EQ(last.obs.as<float>()[2], other) << "the other one goes on";
  EXPECT_EQ(last.obs.as<float>()[3], 3.0f);
  EXPECT_EQ(env->pid(), pid);
  EXPECT_EQ(env->restarts(), 0u);
}

TEST_F(GymRealTest, GYM5_OneThatCanDoNothingEndsTraining) {
  for (const char* how : {"first step", "reset"}) {
    const auto env = GymEnv::make("Broken-v0", broken(how)).value();
    StepBuffers last(*env);
    OwnedRows actions(env->specs().action_space, 2);
    actions.as<std::int64_t>()[0] = 1;
    try {
      env->reset(std::vector<std::uint64_t>{3, 4});
      for (int t = 0; t < 10; ++t) env->step(actions.view(), last.out());
      ADD_FAILURE() << "it went on: " << how;
    } catch (const troupe::WorkerCrashedError& error) {
      EXPECT_NE(std::string(error.what()).find("the simulator diverged"), std::string::npos) << error.what();
    }
  }
}

/// HPR-2 with the host that the library carries: its owner is killed while it is busy.
TEST_F(GymRealTest, HPR2_TheProcessDiesWithItsParent) {
  int told[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    BatchEnvOptions stalls = options(1);
    stalls.faults = {.stalled = 1, .stall = std::chrono::hours(1)};
    const auto env = GymEnv::make("CartPole-v1", stalls).value();
    env->reset(std::vector<std::uint64_t>{1});
    const std::vector<std::int64_t> action{0};
    env->send(ConstRows(std::span(action), 1));
    const int pid = env->pid();
    if (::write(told[1], &pid, sizeof(pid)) == sizeof(pid)) ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int host = 0;
  ASSERT_EQ(::read(told[0], &host, sizeof(host)), static_cast<ssize_t>(sizeof(host)));
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, host, 0));
  if (fd >= 0) {
    pollfd poll{fd, POLLIN, 0};
    EXPECT_EQ(::poll(&poll, 1, 60'000), 1) << "it is still there";
    ::close(fd);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(told[0]), ::close(told[1]);
}

}  // namespace
}  // namespace rl

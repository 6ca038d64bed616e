// RIN-1, RIN-2, OTL-1, SSP-1, HMM-1, HMM-2, HPR-1 to HPR-5, GYM-1 to GYM-4, BE-3, BE-4, BE-6, BE-7: the bridge to
// Gymnasium with a host that does whatever a test wants (fake_gym_host.py), and needs no package of Python's.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/gym/gym_env.h"

namespace rl {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using troupe::ErrorCode;

BatchEnvOptions options(std::size_t n = 1) {
  return {.num_envs = n,
          .gym = {.python = TROUPE_FAKE_GYM_HOST,
                  .start_deadline = seconds(60),
                  .step_deadline = seconds(60),
                  .grace = milliseconds(20),
                  .back_off = milliseconds(1)}};
}

/// A name that no file has yet; it is gone with the test.
class Marker {
 public:
  Marker() : path_(fmt::format("{}gym_marker_{}", testing::TempDir(), ::getpid())) { std::filesystem::remove(path_); }
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  ~Marker() { std::filesystem::remove(path_); }
  boost::json::object once() const { return {{"once", path_}}; }

 private:
  std::string path_;
};

std::unique_ptr<GymEnv> start(std::string_view name, const BatchEnvOptions& options) {
  auto env = GymEnv::make(name, options).value();
  std::vector<std::uint64_t> seeds(options.num_envs);
  for (std::size_t i = 0; i < seeds.size(); ++i) seeds[i] = 7000 + i;
  env->reset(seeds);
  return env;
}

void step(BatchEnv& env, StepBuffers& into) {
  const std::vector<std::int64_t> actions(env.size(), 1);
  env.step(ConstRows(std::span(actions), 1), into.out());
}

/// Whether a process that is no child of ours ends before a minute has passed.
bool ends(pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return true;
  pollfd poll{fd, POLLIN, 0};
  const bool ended = ::poll(&poll, 1, 60'000) == 1;
  ::close(fd);
  return ended;
}

// ------------------------------------------------------------------------------------------------------- pure parts

TEST(GymPartsTest, RIN1_AtMostSoManyRestartsWithinAPeriod) {
  const RestartCounter::Time start{};
  RestartCounter counter({.most = 2, .period = seconds(10)});
  EXPECT_TRUE(counter.allow(start));
  EXPECT_TRUE(counter.allow(start + seconds(9)));
  EXPECT_FALSE(counter.allow(start + milliseconds(9'999)));
  EXPECT_TRUE(counter.allow(start + seconds(10))) << "the first one is forgotten";
  EXPECT_FALSE(counter.allow(start + seconds(18)));
  EXPECT_TRUE(counter.allow(start + seconds(19)));
  EXPECT_FALSE(RestartCounter({.most = 0}).allow(start));
}

TEST(GymPartsTest, RIN2_ARestartThatFailsSlowlyMakesNobodyForget) {
  RestartCounter::Time now{};
  RestartCounter counter({.most = 2, .period = seconds(10)});
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_TRUE(counter.allow(now));
    now += seconds(60);
    counter.failed(seconds(60));
  }
  EXPECT_FALSE(counter.allow(now));
  EXPECT_FALSE(counter.allow(now + milliseconds(9'999)));
  EXPECT_TRUE(counter.allow(now + seconds(10))) << "time between restarts counts as ever";
}

TEST(GymPartsTest, OTL1_TheTailIsBoundedAndOfWholeLines) {
  OutputTail tail(20);
  tail.add("one\ntw");
  EXPECT_EQ(tail.lines(9), (std::vector<std::string>{"one", "tw"}));
  tail.add("o\nthree\nfour\nfive");
  tail.add("\nsix\n");
  EXPECT_EQ(tail.lines(9), (std::vector<std::string>{"four", "five", "six"})) << "the first may be half a line";
  EXPECT_EQ(tail.lines(1), std::vector<std::string>{"six"});
  tail.add(std::string(1000, 'x'));
  EXPECT_EQ(tail.lines(9), std::vector<std::string>{std::string(20, 'x')}) << "the only one there is";
}

TEST(GymPartsTest, SSP1_WhoWaitedLongSleepsAtOnceUntilAWaitIsShort) {
  ShortSpin spin;
  const auto looked = [&](bool there) {
    bool out = false;
    spin.until([&] { return out = true, there; });
    return out;
  };
  const auto waits_without_a_look = [&] {  // and the one after them was long
    int out = 0;
    while (!looked(false)) ++out;
    return out;
  };
  EXPECT_TRUE(looked(true));
  EXPECT_TRUE(looked(true)) << "a short wait costs the next one nothing";
  EXPECT_EQ(waits_without_a_look(), 0);
  for (const int skipped : {1, 3, 7, 15, 31, 63, 63}) EXPECT_EQ(waits_without_a_look(), skipped);
  for (int i = 0; i < 63; ++i) EXPECT_FALSE(looked(true));
  EXPECT_TRUE(looked(true));
  EXPECT_EQ(waits_without_a_look(), 0);
  EXPECT_EQ(waits_without_a_look(), 1) << "it counts from the beginning";
}

TEST(GymPartsTest, HMM1_ALayoutIsAlignedAndBounded) {
  const Space obs = Box{.dtype = DType::kUint8, .shape = {210, 160, 3}, .low = {0}, .high = {255}};
  const Space action = Discrete{.n = 6};
  const HostLayout layout = HostLayout::of(obs, action, 3).value();
  std::size_t before = 0;
  for (std::size_t at : {layout.seeds, layout.spare_seeds, layout.actions, layout.reward, layout.terminated,
                         layout.truncated, layout.is_reset, layout.threw, layout.ended, layout.obs, layout.final_obs,
                         layout.reasons, layout.bytes}) {
    EXPECT_EQ(at % 64, 0u);
    EXPECT_GT(at, before);
    before = at;
  }
  EXPECT_GE(layout.final_obs - layout.obs, 3 * 210 * 160 * 3u);
  const Space largest = Box{.dtype = DType::kFloat64, .shape = {std::size_t{1} << 32}, .low = {0}, .high = {1}};
  ASSERT_TRUE(check_space(largest).ok());
  for (std::size_t n : {std::size_t{1}, std::size_t{1} << 40}) EXPECT_FALSE(HostLayout::of(largest, action, n).ok());
  EXPECT_FALSE(HostLayout::of(obs, action, std::size_t{1} << 60).ok());
  EXPECT_FALSE(HostLayout::of(obs, action, 0).ok());
}

TEST(GymPartsTest, HMM2_NobodyCanShrinkTheMemory) {
  const Space number = Box{.dtype = DType::kFloat32, .shape = {4}, .low = {0}, .high = {1}};
  HostMemory memory = HostMemory::create().value();
  ASSERT_TRUE(memory.grow(HostLayout::of(number, number, 2).value(), number, number).ok());
  EXPECT_EQ(::ftruncate(memory.fd(), 0), -1);
  EXPECT_EQ(::ftruncate(memory.fd(), 1 << 20), -1);
  memory.obs().as<float>()[7] = 1;
  EXPECT_EQ(memory.final_obs().as<float>()[0], 0.0f) << "arrays do not overlap";
}

// ------------------------------------------------------------------------------------------------------ as it should

TEST(GymBridgeTest, WhatTheHostGivesIsWhatAStepGives) {
  const auto env = make_batch_env("gym:count", [] {
                     BatchEnvOptions three = options(3);
                     three.kwargs = {{"length", 2}};
                     return three;
                   }()).value();
  EXPECT_EQ(env->specs().id, "gym:count");
  EXPECT_EQ(env->specs().reward_threshold, 4.5);
  EXPECT_EQ(env->specs().gym_spec, "");
  const auto registered = GymEnv::make("env-spec", options()).value();
  EXPECT_EQ(registered->specs().gym_spec, R"({"id": "env-spec", "entry_point": "a:B"})");
  EXPECT_EQ(env->specs().max_episode_steps, std::nullopt);
  env->reset(std::vector<std::uint64_t>{5, 6, 1'000'000'007});
  StepBuffers last(*env);
  env->observe(last.obs.view());
  const auto obs = [&] { return std::vector<float>(last.obs.as<float>().begin(), last.obs.as<float>().end()); };
  EXPECT_EQ(obs(), (std::vector<float>{5, 0, 6, 0, 7, 0}));
  step(*env, last);
  EXPECT_EQ(obs(), (std::vector<float>{5, 1, 6, 1, 7, 1}));
  EXPECT_EQ(last.reward, std::vector<double>(3, 1));
  EXPECT_TRUE(env->ends().env.empty());
  step(*env, last);
  const EpisodeEnds ends = env->ends();
  ASSERT_EQ(ends.env.size(), 3u);
  EXPECT_EQ(ends.returns[2], 2.0);
  EXPECT_EQ(ends.lengths[2], 2);
  EXPECT_EQ(ends.final_obs.row(2).as<float>()[0], 7.0f);
  EXPECT_EQ(ends.final_obs.row(2).as<float>()[1], 2.0f);
  EXPECT_EQ(last.terminated, std::vector<std::uint8_t>(3, 1));
  EXPECT_TRUE(env->faults().empty());
}

TEST(GymBridgeTest, BE4_BE6_WrongCallsAreRefusedAndHarmNothing) {
  BatchEnvOptions one = options();
  one.auto_reset = AutoReset::kDisabled;
  one.kwargs = {{"length", 1}};
  const auto env = GymEnv::make("count", one).value();
  StepBuffers last(*env);
  const auto refused = [&](std::vector<std::int64_t> actions) {
    try {
      env->step(ConstRows(std::span(actions), 1), last.out());
    } catch (const troupe::InvalidArgumentError& error) { return std::string(error.what()); }
    return std::string();
  };
  EXPECT_NE(refused({0}).find("never reset"), std::string::npos);
  EXPECT_THROW(env->reset(std::vector<std::uint64_t>{1, 2}), troupe::InvalidArgumentError);
  env->reset(std::vector<std::uint64_t>{1});
  EXPECT_NE(refused({2}).find("environment 0 of gym:count: action 2"), std::string::npos);
  EXPECT_NE(refused({0, 0}), "");
  EXPECT_EQ(refused({0}), "");
  EXPECT_NE(refused({0}).find("has ended"), std::string::npos);
  EXPECT_THROW(env->reset_one(1), troupe::InvalidArgumentError);
  env->reset_one(0);
  EXPECT_EQ(refused({0}), "");
}

TEST(GymBridgeTest, TwoAreAtWorkAtATime) {
  const auto one = start("count", options()), two = start("count", options());
  StepBuffers a(*one), b(*two);
  const std::vector<std::int64_t> action{0};
  one->send(ConstRows(std::span(action), 1));
  two->send(ConstRows(std::span(action), 1));
  two->receive(b.out());
  one->receive(a.out());
  EXPECT_EQ(a.obs.as<float>()[1], 1.0f);
  EXPECT_EQ(b.obs.as<float>()[1], 1.0f);
}

// ------------------------------------------------------------------------------------------------------------ faults

/// After two good steps of each of two environments the third goes wrong.
struct Broken {
  std::unique_ptr<GymEnv> env;
  std::unique_ptr<StepBuffers> last;
  int pid = 0;      // of the process that broke
  float shown = 0;  // by it, last
};
Broken break_third_step(std::string_view name, BatchEnvOptions options) {
  Broken broken;
  broken.env = start(name, options);
  broken.last = std::make_unique<StepBuffers>(*broken.env);
  step(*broken.env, *broken.last);
  step(*broken.env, *broken.last);
  broken.pid = broken.env->pid();
  broken.shown = broken.last->obs.as<float>()[0];
  step(*broken.env, *broken.last);
  return broken;
}

void expect_both_faulted(const Broken& broken, FaultKind kind) {
  ASSERT_EQ(broken.env->faults().size(), 2u);
  for (std::uint32_t i : {0u, 1u}) {
    const Fault& fault = broken.env->faults()[i];
    EXPECT_EQ(fault.env, i);
    EXPECT_EQ(fault.kind, kind);
    EXPECT_EQ(fault.length, 2);
    EXPECT_EQ(fault.partial_return, 2.0);
    const auto row = broken.last->obs.as<float>().subspan(2 * i, 2);
    EXPECT_EQ(row[1], 0.0f) << "the first observation of a new episode";
    EXPECT_NE(row[0], static_cast<float>(i)) << "of a seed that it has not had";
  }
  EXPECT_EQ(broken.last->is_reset, (std::vector<std::uint8_t>{1, 1}));
  EXPECT_EQ(broken.last->reward, (std::vector<double>{0, 0}));
  EXPECT_EQ(broken.last->terminated, (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(broken.last->truncated, (std::vector<std::uint8_t>{0, 0}));
  EXPECT_TRUE(broken.env->ends().env.empty());
  EXPECT_EQ(broken.env->restarts(), 1u);
  EXPECT_NE(broken.env->pid(), broken.pid);
  EXPECT_NE(::kill(broken.pid, 0), 0) << "HPR-5: neither running nor a zombie";
  step(*broken.env, *broken.last);
  EXPECT_TRUE(broken.env->faults().empty());
  EXPECT_EQ(broken.last->obs.as<float>()[1], 1.0f);
}

BatchEnvOptions twice(const Marker& marker, milliseconds step_deadline) {
  BatchEnvOptions two = options(2);
  two.kwargs = marker.once();
  two.gym.step_deadline = step_deadline;
  return two;
}

TEST(GymBridgeTest, BE7_AStallBreaksEveryOpenEpisodeOff) {
  const Marker marker;
  const Broken broken = break_third_step("stall", twice(marker, seconds(5)));
  EXPECT_NE(broken.env->faults()[0].what.find("did not answer within 5000 ms"), std::string::npos);
  expect_both_faulted(broken, FaultKind::kStalled);
}

TEST(GymBridgeTest, BE7_AnExitInTheMiddleOfAStepIsOne) {
  const Marker marker;
  const Broken broken = break_third_step("exit", twice(marker, seconds(60)));
  EXPECT_EQ(broken.env->faults()[0].what, "exited with code 7");
  expect_both_faulted(broken, FaultKind::kExited);
}

TEST(GymBridgeTest, HPR5_AFrozenProcessIsKilled) {
  const Marker marker;
  expect_both_faulted(break_third_step("stop", twice(marker, seconds(5))), FaultKind::kStalled);
}

TEST(GymBridgeTest, HPR5_ThoseThatIgnoreTermAreKilledWithTheirGroup) {
  const Marker marker;
  const Broken broken = break_third_step("term-is-ignored", twice(marker, seconds(5)));
  EXPECT_GT(broken.shown, 1.0f);
  EXPECT_TRUE(ends(static_cast<pid_t>(broken.shown))) << "a companion that it started";
  expect_both_faulted(broken, FaultKind::kStalled);
}

TEST(GymBridgeTest, GYM2_ResultsThatCannotBeAreAFault) {
  for (const char* name : {"many-ended", "foreign-ended", "unanswered"}) {
    SCOPED_TRACE(name);
    const Marker marker;
    const Broken broken = break_third_step(name, twice(marker, seconds(60)));
    EXPECT_EQ(broken.env->faults()[0].what, "answered what cannot be");
    expect_both_faulted(broken, FaultKind::kExited);
  }
}

TEST(GymBridgeTest, BE7_WhoWaitsForItsNextEpisodeHasNoneToLose) {
  const Marker marker;
  BatchEnvOptions next = twice(marker, seconds(60));
  next.auto_reset = AutoReset::kNextStep;
  next.kwargs["length"] = 2;  // both end in the step before
  const Broken broken = break_third_step("exit", next);
  EXPECT_TRUE(broken.env->faults().empty());
  EXPECT_EQ(broken.last->is_reset, (std::vector<std::uint8_t>{1, 1}));
  EXPECT_EQ(broken.env->restarts(), 1u);
}

TEST(GymBridgeTest, GYM3_ADeathInAResetIsShownByTheNextStep) {
  const Marker marker;
  BatchEnvOptions three = twice(marker, seconds(60));
  three.num_envs = 3;
  three.auto_reset = AutoReset::kDisabled;
  const auto env = start("exit-in-reset-one", three);
  StepBuffers last(*env);
  step(*env, last), step(*env, last);
  env->reset_one(1);
  EXPECT_EQ(env->restarts(), 1u);
  step(*env, last);
  ASSERT_EQ(env->faults().size(), 2u);
  for (std::size_t k : {0u, 1u}) {
    EXPECT_EQ(env->faults()[k].env, 2 * k) << "the one that was reset has lost nothing";
    EXPECT_EQ(env->faults()[k].length, 2);
  }
  EXPECT_EQ(last.is_reset, std::vector<std::uint8_t>(3, 1));
  EXPECT_EQ(last.obs.as<float>()[3], 0.0f);
  step(*env, last);
  EXPECT_TRUE(env->faults().empty());
  EXPECT_EQ(last.is_reset, std::vector<std::uint8_t>(3, 0));
  EXPECT_EQ(last.obs.as<float>()[3], 1.0f);
}

TEST(GymBridgeTest, GYM1_TooManyRestartsAreAnErrorWithTheLastWords) {
  BatchEnvOptions always = options(2);
  always.gym.restarts = {.most = 2, .period = seconds(3600)};
  const auto env = start("exit", always);
  StepBuffers last(*env);
  const auto play = [&] {
    for (int t = 0; t < 100; ++t) step(*env, last);
  };
  for (int again = 0; again < 2; ++again) {
    try {
      play();
      FAIL() << "it went on";
    } catch (const troupe::WorkerCrashedError& error) {
      EXPECT_NE(std::string(error.what()).find("exited with code 7"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("more than 2 restarts"), std::string::npos) << error.what();
      EXPECT_EQ(error.context().log_tail, std::vector<std::string>{"the simulator ran out of licenses"});
    }
    EXPECT_EQ(env->restarts(), 2u);
    EXPECT_EQ(env->pid(), -1);
  }
}

TEST(GymBridgeTest, GYM2_SpacesThatChangeAreNoRestart) {
  const Marker marker;
  BatchEnvOptions changed = twice(marker, seconds(60));
  changed.kwargs["then"] = "other-spaces";
  changed.gym.restarts = {.most = 1};
  try {
    break_third_step("exit", changed);
    FAIL() << "it went on";
  } catch (const troupe::WorkerCrashedError& error) {
    EXPECT_NE(std::string(error.what()).find("has other spaces than before"), std::string::npos) << error.what();
  }
}

TEST(GymBridgeTest, GYM1_OneThatStartsNoMoreIsGivenUp) {
  const Marker marker;
  BatchEnvOptions silent = options();
  silent.kwargs = marker.once();
  silent.kwargs["then"] = "silent";
  silent.gym.start_deadline = seconds(5);
  silent.gym.restarts = {.most = 1, .period = silent.gym.start_deadline};  // each attempt takes it all
  const auto env = start("exit", silent);
  StepBuffers last(*env);
  step(*env, last), step(*env, last);
  auto third = std::async(std::launch::async, [&] { step(*env, last); });
  if (third.wait_for(seconds(60)) != std::future_status::ready) env->cancel();
  try {
    third.get();
    FAIL() << "it went on";
  } catch (const troupe::WorkerCrashedError& error) {
    EXPECT_NE(std::string(error.what()).find("did not start within 5000 ms"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("more than 1 restarts"), std::string::npos) << error.what();
  }
  EXPECT_EQ(env->restarts(), 1u);
}

TEST(GymBridgeTest, WhatIsPrintedKeepsNobodyWaiting) {
  const auto env = start("flood", options());  // two megabytes a step, more than any pipe holds
  StepBuffers last(*env);
  step(*env, last);
  EXPECT_EQ(last.reward[0], 1.0);
}

TEST(GymBridgeTest, HPR4_PrintingWithoutEndIsLateAllTheSame) {
  const Marker marker;
  expect_both_faulted(break_third_step("flood-and-stall", twice(marker, seconds(5))), FaultKind::kStalled);
}

TEST(GymBridgeTest, CancelEndsALongStep) {
  const auto env = start("stall", options());
  StepBuffers last(*env);
  step(*env, last), step(*env, last);
  std::thread other([&] { env->cancel(); });
  EXPECT_THROW(step(*env, last), troupe::CancelledError);
  EXPECT_THROW(step(*env, last), troupe::CancelledError);
  other.join();
}

// ------------------------------------------------------------------------------------------------------------- start

std::string refused(std::string_view name, const BatchEnvOptions& options, ErrorCode code) {
  const auto made = GymEnv::make(name, options);
  if (made.ok()) return "it was made";
  EXPECT_EQ(made.error().code(), code) << made.error().what();
  return made.error().what();
}

TEST(GymBridgeTest, GYM4_AStartThatFailsHasATypeAndAReason) {
  const auto says = [](const std::string& said, std::string_view part) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  says(refused("crash-at-start", options(), ErrorCode::kWorkerCrashed), "no license found");
  says(refused("crash-at-start", options(), ErrorCode::kWorkerCrashed), "exited with code 3 before its hello");
  says(refused("garbage", options(), ErrorCode::kWorkerCrashed), "does not say hello");
  says(refused("not-json", options(), ErrorCode::kWorkerCrashed), "does not say hello");
  says(refused("version", options(), ErrorCode::kInvalidArgument), "speaks version 3 of the protocol, this program 2");
  says(refused("huge", options(), ErrorCode::kInvalidArgument), "may share");
  says(refused("dict", options(), ErrorCode::kInvalidArgument), "Dict");
  says(refused("no-spec", options(), ErrorCode::kInvalidArgument), "cannot be read");
  says(refused("torn-env-spec", options(), ErrorCode::kInvalidArgument), "cannot be read");
  BatchEnvOptions impatient = options();
  impatient.gym.start_deadline = milliseconds(300);
  says(refused("silent", impatient, ErrorCode::kDeadlineExceeded), "did not start within 300 ms");
  BatchEnvOptions nobody = options();
  nobody.gym.python = "/no/such/python3";
  says(refused("count", nobody, ErrorCode::kNotFound), "/no/such/python3");
  says(refused("", options(), ErrorCode::kInvalidArgument), "name");
  EXPECT_EQ(refused("count", options(0), ErrorCode::kInvalidArgument), "gym:count: at least one environment is needed");
}

/// The host that the library carries, under a Python without packages.
TEST(GymBridgeTest, GYM4_APythonWithoutGymnasiumIsNamed) {
  const std::string path = fmt::format("{}bare_python_{}", testing::TempDir(), ::getpid());
  std::ofstream(path) << "#!/bin/sh\nexec python3 -I -S \"$@\"\n";
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  BatchEnvOptions bare = options();
  bare.gym.python = path;
  const std::string said = refused("CartPole-v1", bare, ErrorCode::kRuntimeEnv);
  std::filesystem::remove(path);
  EXPECT_NE(said.find("numpy"), std::string::npos) << said;
  EXPECT_NE(said.find("install"), std::string::npos) << said;
}

// ---------------------------------------------------------------------------------------------- the child's life

TEST(GymBridgeTest, HPR1_HPR3_TheChildHasItsOwnGroupAndNoDescriptorOfOurs) {
  std::vector<int> ours;
  for (int i = 0; i < 20; ++i) ours.push_back(::open("/dev/null", O_RDONLY));  // not closed on exec
  const auto env = start("descriptors", options());
  EXPECT_EQ(::getpgid(env->pid()), env->pid());
  StepBuffers last(*env);
  env->observe(last.obs.view());
  EXPECT_LE(last.obs.as<float>()[0], 9.0f) << "0 to 7, and its own copy of the memory's";
  EXPECT_LE(last.obs.as<float>()[1], 8.0f);
  for (int fd : ours) ::close(fd);
}

TEST(GymBridgeTest, HPR2_TheThreadThatStartedItMayEnd) {
  std::unique_ptr<GymEnv> env;
  std::thread([&] { env = start("count", options()); }).join();
  StepBuffers last(*env);
  for (int t = 0; t < 3; ++t) step(*env, last);
  EXPECT_EQ(env->restarts(), 0u);
}

/// A process that owns an environment is killed while its host is busy and does not read.
TEST(GymBridgeTest, HPR2_TheChildDiesWithItsParentHoweverBusyItIs) {
  int told[2], go_on[2];
  ASSERT_EQ(::pipe2(told, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(go_on, O_CLOEXEC), 0);
  const pid_t parent = ::fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    auto env = start("stall", options());
    StepBuffers last(*env);
    step(*env, last), step(*env, last);
    const std::vector<std::int64_t> action{0};
    env->send(ConstRows(std::span(action), 1));
    const int pid = env->pid();
    char byte = 0;
    if (::write(told[1], &pid, sizeof(pid)) == sizeof(pid) && ::read(go_on[0], &byte, 1) == 1)
      ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int host = 0;
  ASSERT_EQ(::read(told[0], &host, sizeof(host)), static_cast<ssize_t>(sizeof(host)));
  ASSERT_EQ(::kill(host, 0), 0) << "it runs";
  ASSERT_EQ(::write(go_on[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(parent, &status, 0), parent);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(ends(host));
  for (int fd : {told[0], told[1], go_on[0], go_on[1]}) ::close(fd);
}

TEST(GymBridgeTest, HPR5_NothingIsLeftWhenTheEnvironmentIsGone) {
  int pid = 0;
  {
    const auto env = start("count", options());
    pid = env->pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

TEST(EnvRegistryTest, PrefixesAreNoEnvironments) {
  const std::vector<std::string> prefixes = registered_prefixes();
  for (const char* prefix : {"exit:", "gym:", "stall:", "throw:"})
    EXPECT_EQ(std::count(prefixes.begin(), prefixes.end(), prefix), 1) << prefix;
  for (const std::string& name : registered_envs()) EXPECT_EQ(name.find(':'), std::string::npos);
}

}  // namespace
}  // namespace rl

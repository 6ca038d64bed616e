// ROL-1, ROL-2, ROL-4, ROL-6, LRN-1, LRN-2, RTL-1, RTL-2, and that PPO learns: the whole loop in this process, without
// the runtime.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "apps/rl/algorithms/philox.h"
#include "apps/rl/envs/sync_vector_env.h"
#include "apps/rl/training/evaluate.h"
#include "apps/rl/learners/ppo_learner.h"
#include "apps/rl/config/algorithms/ppo.h"
#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/training/rollout.h"
#include "apps/rl/training/training_log.h"

namespace {

using namespace rl;

PolicySpec policy() { return std::get<PolicySpec>(task_of({}).value().policy); }

// The loop of the program, in one process.
class LocalRun {
 public:
  explicit LocalRun(const RunConfig& config) : config_(config), learner_(ppo_options(config, policy())) {
    log_.threshold = 475;
    for (std::size_t i = 0; i < config.num_workers; ++i) {
      workers_.emplace_back(rollout_options(config, policy(), i, 0));
      batches_.emplace_back(workers_.back().columns(), config.samples_per_worker());
    }
  }
  void iterate() {
    std::vector<std::vector<EpisodeEnd>> episodes;
    std::vector<SampleView> views;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const OnPolicyOut out = on_policy_out(batches_[i].layout(), batches_[i].memory());
      episodes.push_back(workers_[i].collect(learner_.params(), out));
      views.push_back(batches_[i].view());
    }
    log_.add(episodes, config_.num_envs, config_.horizon, 0);
    learner_.update(views);
  }
  PpoLearner& learner() { return learner_; }
  const TrainingLog& log() const { return log_; }
  std::vector<float> params() const { return {learner_.params().begin(), learner_.params().end()}; }
  std::vector<SampleView> views() const {
    std::vector<SampleView> out;
    for (const OwnedSamples& batch : batches_) out.push_back(batch.view());
    return out;
  }

 private:
  RunConfig config_;
  PpoLearner learner_;
  std::vector<RolloutWorker> workers_;
  std::vector<OwnedSamples> batches_;
  TrainingLog log_;
};

TEST(Training, SolvesCartPoleFromSeveralSeedsAndTheGreedyPolicyIsPerfect) {
  for (std::uint64_t seed : {1, 2, 3}) {
    LocalRun run({.seed = seed});
    while (!run.log().solved() && run.log().steps < 200'000) run.iterate();
    ASSERT_TRUE(run.log().solved()) << "seed " << seed << ": mean return " << run.log().mean_return();
    EXPECT_LE(run.log().solved_steps, run.log().steps);
    const auto played = evaluate({.spec = policy(), .params = run.params()}, {});
    ASSERT_TRUE(played.ok());
    EXPECT_GE(played->mean, 475) << "seed " << seed;
  }
}

TEST(Training, LRN1_ROL1_SameSeedSameBitsAndAnotherSeedOthers) {
  const auto params_after = [](std::uint64_t seed) {
    LocalRun run({.seed = seed, .num_envs = 5, .horizon = 33});
    for (int i = 0; i < 4; ++i) run.iterate();
    return run.params();
  };
  EXPECT_EQ(params_after(7), params_after(7));
  EXPECT_NE(params_after(7), params_after(8));
}

TEST(PpoLearner, LRN2_RestoredLearnerGoesOnWithTheSameBits) {
  LocalRun run({.num_envs = 8, .horizon = 40});
  run.iterate();
  PpoLearner copy(ppo_options({.seed = 99}, policy()));
  copy.restore(run.learner().save());
  run.learner().update(run.views());
  copy.update(run.views());
  EXPECT_EQ(run.params(), std::vector<float>(copy.params().begin(), copy.params().end()));
  EXPECT_EQ(copy.save(), run.learner().save());
}

TEST(PpoLearner, LinearDecayFallsAndStays) {
  const LinearDecay decay{.first = 1.0, .last = 0.5, .over_steps = 100};
  EXPECT_DOUBLE_EQ(decay.at(0), 1.0);
  EXPECT_DOUBLE_EQ(decay.at(50), 0.75);
  EXPECT_DOUBLE_EQ(decay.at(1000), 0.5);
}

TEST(Rollout, ROL2_EpisodesGoOnFromBatchToBatch) {
  const PpoLearner learner(ppo_options({}, policy()));
  const auto lengths = [&](std::size_t horizon, int batches) {
    RolloutOptions options = rollout_options({.num_envs = 3}, policy(), 0, 0);
    options.horizon = horizon;
    RolloutWorker worker(options);
    OwnedSamples batch(worker.columns(), worker.samples());
    std::vector<float> out;
    for (int i = 0; i < batches; ++i) {
      const OnPolicyOut into = on_policy_out(batch.layout(), batch.memory());
      for (const EpisodeEnd& e : worker.collect(learner.params(), into)) out.push_back(e.episode_return);
    }
    return out;
  };
  EXPECT_EQ(lengths(10, 12), lengths(120, 1));
  EXPECT_GT(lengths(120, 1).size(), 3u);
}

// ROL-4: the rows of faults teach nothing, and no return is made of what was broken off.
TEST(Rollout, ROL4_AFaultIsNoTransitionAndNoReturn) {
  RunConfig config;
  config.env = {.id = "throw:CartPole-v1", .kwargs = R"({"p": 0.02})"};
  const PpoLearner learner(ppo_options(config, policy()));
  RolloutWorker worker(rollout_options(config, policy(), 0, 0));
  OwnedSamples batch(worker.columns(), worker.samples());
  std::int64_t faults = 0, ended = 0, neutral = 0;
  double counted = 0;
  for (int i = 0; i < 4; ++i) {
    const auto episodes = worker.collect(learner.params(), on_policy_out(batch.layout(), batch.memory()));
    for (const EpisodeEnd& episode : episodes) ++ended, counted += static_cast<double>(episode.episode_return);
    faults += worker.take_faults()[static_cast<std::size_t>(FaultKind::kThrew)];
    const OnPolicyView seen = on_policy_view(batch.view());
    for (std::size_t row = 0; row < seen.rows(); ++row)
      neutral += seen.advantage[row] == 0.0f && seen.returns[row] == seen.value[row] ? 1 : 0;
  }
  EXPECT_GT(faults, 20);
  EXPECT_GT(ended, 0);
  EXPECT_EQ(neutral, faults);
  EXPECT_LT(counted, 4.0 * static_cast<double>(worker.samples()) - static_cast<double>(faults));
  EXPECT_EQ(worker.take_faults(), FaultCounts{});
}

TEST(Rollout, WorkersOfOneRunPlayDifferentEpisodes) {
  const PpoLearner learner(ppo_options({}, policy()));
  std::vector<std::vector<float>> obs;
  for (std::size_t i : {0, 1}) {
    RolloutWorker worker(rollout_options({}, policy(), i, 0));
    OwnedSamples batch(worker.columns(), worker.samples());
    worker.collect(learner.params(), on_policy_out(batch.layout(), batch.memory()));
    const auto shown = batch.column("obs").as<float>();
    obs.emplace_back(shown.begin(), shown.end());
  }
  EXPECT_NE(obs[0], obs[1]);
}

// PA-1: a worker that was restarted does not play its first episodes again; the first life is that of a run without
// one.
TEST(Rollout, EveryLifeOfAWorkerHasARandomStreamOfItsOwn) {
  const PpoLearner learner(ppo_options({}, policy()));
  const auto played = [&](std::uint32_t life) {
    RolloutOptions options = rollout_options({}, policy(), 0, 0);
    options.life = life;
    RolloutWorker worker(options);
    OwnedSamples batch(worker.columns(), worker.samples());
    worker.collect(learner.params(), on_policy_out(batch.layout(), batch.memory()));
    const auto shown = batch.column("obs").as<float>();
    const auto taken = batch.column("action").as<std::int64_t>();
    return std::pair(std::vector<float>(shown.begin(), shown.end()),
                     std::vector<std::int64_t>(taken.begin(), taken.end()));
  };
  EXPECT_EQ(played(1), played(1));
  for (const auto& [one, other] : {std::pair(0, 1), std::pair(1, 2)}) {
    EXPECT_NE(played(std::uint32_t(one)).first, played(std::uint32_t(other)).first);
    EXPECT_NE(played(std::uint32_t(one)).second, played(std::uint32_t(other)).second);
  }
}

TEST(Rollout, ROL6_ALaterLifeDrawsFromPhiloxsStreams) {
  const PpoLearner learner(ppo_options({}, policy()));
  RolloutOptions options = rollout_options({}, policy(), 1, 0);
  options.life = 2;
  RolloutWorker worker(options);
  OwnedSamples batch(worker.columns(), worker.samples());
  worker.collect(learner.params(), on_policy_out(batch.layout(), batch.memory()));
  MadeEnv env = MadeEnv::make({}, {.num_envs = options.num_envs}).value();
  std::vector<std::uint64_t> seeds;
  for (std::uint32_t i = 0; i < options.num_envs; ++i)
    seeds.push_back(seed_of({.job = options.seed, .runner = 1, .life = 2, .environment = i}));
  env.env().reset(seeds);
  OwnedRows first(policy().observation_space, options.num_envs);
  env.env().observe(first.view());
  const auto shown = batch.column("obs").as<float>(), expected = first.as<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(shown[i], expected[i]) << i;
}

// E.5: what an update did is told, as means over its minibatches.
TEST(PpoLearner, AnUpdateTellsItsKlClipFractionAndEntropy) {
  LocalRun run({.num_envs = 8, .horizon = 40});
  run.iterate();
  const UpdateReport report = run.learner().update(run.views());
  TrainingLog log;
  log.steps = 640;
  log.add(report);
  EXPECT_GT(log.last("kl").value(), 0);
  EXPECT_GT(log.last("clip_fraction").value(), 0);
  EXPECT_LT(log.last("clip_fraction").value(), 1);
  EXPECT_GT(log.last("entropy").value(), 0);
  EXPECT_LE(log.last("entropy").value(), std::log(2.0) + 1e-6) << "of two actions";
  EXPECT_FALSE(log.last("no such metric").has_value());
  ASSERT_EQ(log.learning.size(), 1u);
  EXPECT_EQ(log.learning[0].steps, 640);
}

// LRN-3: what cannot be learned from changes nothing.
TEST(PpoLearner, LRN3_ALossThatIsNotFiniteIsAnErrorAndChangesNothing) {
  LocalRun run({.num_envs = 8, .horizon = 40});
  run.iterate();
  const StateDict before = run.learner().save();
  OwnedSamples bad = concatenate(run.views());
  bad.column("returns").as<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(run.learner().update(std::vector<SampleView>{bad.view()}), troupe::InvalidArgumentError);
  EXPECT_EQ(run.learner().save().get<float>("params").size(), before.get<float>("params").size());
  for (float x : run.params()) ASSERT_TRUE(std::isfinite(x));
}

TEST(PpoLearner, AnUpdateEndsWithTheEpochThatPassesTheTargetKl) {
  LocalRun run({.num_envs = 8, .horizon = 40});
  run.iterate();
  const auto steps_of = [&](double target_kl) {
    PpoOptions options = ppo_options({}, policy());
    options.target_kl = target_kl;
    PpoLearner learner(options);
    learner.update(run.views());
    return learner.save().get_one<std::int64_t>("adam/steps");
  };
  EXPECT_EQ(steps_of(0), steps_of(1e9));
  EXPECT_EQ(steps_of(1e-9), 3) << "one epoch of three minibatches";
}

// E.5: the schedules end where the run does.
TEST(PpoLearner, TheSchedulesFallOverTheStepsOfTheRun) {
  const PpoOptions options = ppo_options({.total_steps = 3000}, policy());
  EXPECT_DOUBLE_EQ(options.learning_rate.at(3000), options.learning_rate.last);
  EXPECT_GT(options.learning_rate.at(2000), options.learning_rate.last);
  EXPECT_DOUBLE_EQ(options.clip.at(3000), options.clip.last);
}

TEST(TrainingLog, TL1_TL2_CountsStepsOverAllWorkersAndSolvesOnce) {
  TrainingLog log{.threshold = 475};
  const std::vector<EpisodeEnd> poor(60, {.step = 3, .episode_return = 100, .length = 40});
  const std::vector<EpisodeEnd> good(50, {.step = 5, .episode_return = 500, .length = 80});
  log.add(std::vector{poor, good}, 4, 10, 1.0);
  EXPECT_EQ(log.steps, 80);
  EXPECT_EQ(log.episodes, 110);
  EXPECT_FALSE(log.solved());
  EXPECT_EQ(log.recent.size(), kReturnWindow);
  EXPECT_EQ(log.mean_length(), 60);  // 50 of each are in the window
  log.add(std::vector{good, good}, 4, 10, 2.0);
  EXPECT_TRUE(log.solved());
  EXPECT_EQ(log.solved_steps, 80 + 8 * 6);
  EXPECT_EQ(log.solved_seconds, 2.0);
  log.add(std::vector{poor, poor}, 4, 10, 3.0);
  EXPECT_EQ(log.solved_steps, 80 + 8 * 6);
  EXPECT_EQ(log.curve.size(), 3u);
}

TEST(Environment, UnknownNameListsTheKnownOnes) {
  const auto env = make_env("Pong-v0");
  ASSERT_FALSE(env.ok());
  EXPECT_EQ(env.error().code(), troupe::ErrorCode::kInvalidArgument);
  for (auto id : env_ids()) EXPECT_NE(env.error().message().find(id), std::string::npos);
}

}  // namespace

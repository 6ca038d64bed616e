// ROL-1, ROL-2, LE-1, LE-2, RTL-1, RTL-2, and that PPO learns: the whole loop in this process, without the
// runtime.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "apps/rl/envs/sync_vector_env.h"
#include "apps/rl/training/evaluate.h"
#include "apps/rl/training/learner.h"
#include "apps/rl/ppo/config.h"
#include "apps/rl/training/rollout.h"
#include "apps/rl/training/training_log.h"

namespace {

using namespace rl;

// The loop of the program, in one process.
class LocalRun {
 public:
  explicit LocalRun(const PpoConfig& config) : config_(config), learner_(learner_options(config)) {
    for (std::size_t i = 0; i < config.num_workers; ++i) {
      workers_.emplace_back(rollout_options(config, i, 0));
      batches_.emplace_back(config.samples_per_worker(), workers_.back().obs_size());
    }
  }
  void iterate() {
    std::vector<std::vector<EpisodeEnd>> episodes;
    std::vector<BatchView> views;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      episodes.push_back(workers_[i].collect(learner_.params(), batches_[i].out()));
      views.push_back(batches_[i].view());
    }
    log_.add(episodes, config_.num_envs, config_.horizon, 0);
    learner_.update(views);
  }
  Learner& learner() { return learner_; }
  const TrainingLog& log() const { return log_; }
  std::vector<float> params() const { return {learner_.params().begin(), learner_.params().end()}; }
  std::vector<BatchView> views() const {
    std::vector<BatchView> out;
    for (const OwnedBatch& batch : batches_) out.push_back(batch.view());
    return out;
  }

 private:
  PpoConfig config_;
  Learner learner_;
  std::vector<RolloutWorker> workers_;
  std::vector<OwnedBatch> batches_;
  TrainingLog log_;
};

TEST(Training, SolvesCartPoleFromSeveralSeedsAndTheGreedyPolicyIsPerfect) {
  for (std::uint64_t seed : {1, 2, 3}) {
    LocalRun run({.seed = seed});
    while (!run.log().solved() && run.log().steps < 200'000) run.iterate();
    ASSERT_TRUE(run.log().solved()) << "seed " << seed << ": mean return " << run.log().mean_return();
    EXPECT_LE(run.log().solved_steps, run.log().steps);
    const auto played = evaluate({.env_id = "CartPole-v1", .shape = cartpole_networks(), .params = run.params()}, {});
    ASSERT_TRUE(played.ok());
    EXPECT_GE(played->mean, 475) << "seed " << seed;
  }
}

TEST(Training, LE1_ROL1_SameSeedSameBitsAndAnotherSeedOthers) {
  const auto params_after = [](std::uint64_t seed) {
    LocalRun run({.seed = seed, .num_envs = 5, .horizon = 33});
    for (int i = 0; i < 4; ++i) run.iterate();
    return run.params();
  };
  EXPECT_EQ(params_after(7), params_after(7));
  EXPECT_NE(params_after(7), params_after(8));
}

TEST(Learner, LE2_RestoredLearnerGoesOnWithTheSameBits) {
  LocalRun run({.num_envs = 8, .horizon = 40});
  run.iterate();
  Learner copy(learner_options({.seed = 99}));
  copy.restore(run.learner().save());
  run.learner().update(run.views());
  copy.update(run.views());
  EXPECT_EQ(run.params(), std::vector<float>(copy.params().begin(), copy.params().end()));
  EXPECT_EQ(copy.save().env_steps, run.learner().save().env_steps);
}

TEST(Learner, LinearDecayFallsAndStays) {
  const LinearDecay decay{.first = 1.0, .last = 0.5, .over_steps = 100};
  EXPECT_DOUBLE_EQ(decay.at(0), 1.0);
  EXPECT_DOUBLE_EQ(decay.at(50), 0.75);
  EXPECT_DOUBLE_EQ(decay.at(1000), 0.5);
}

TEST(Rollout, ROL2_EpisodesGoOnFromBatchToBatch) {
  const Learner learner(learner_options({}));
  const auto lengths = [&](std::size_t horizon, int batches) {
    RolloutOptions options;
    options.num_envs = 3;
    options.horizon = horizon;
    RolloutWorker worker(options);
    OwnedBatch batch(worker.samples(), worker.obs_size());
    std::vector<float> out;
    for (int i = 0; i < batches; ++i) {
      for (const EpisodeEnd& e : worker.collect(learner.params(), batch.out())) out.push_back(e.episode_return);
    }
    return out;
  };
  EXPECT_EQ(lengths(10, 12), lengths(120, 1));
  EXPECT_GT(lengths(120, 1).size(), 3u);
}

TEST(Rollout, WorkersOfOneRunPlayDifferentEpisodes) {
  const Learner learner(learner_options({}));
  std::vector<std::vector<float>> obs;
  for (std::size_t i : {0, 1}) {
    RolloutWorker worker(rollout_options({}, i, 0));
    OwnedBatch batch(worker.samples(), worker.obs_size());
    worker.collect(learner.params(), batch.out());
    obs.push_back(batch.obs);
  }
  EXPECT_NE(obs[0], obs[1]);
}

// PA-1: a worker that was restarted does not play its first episodes again; the first life is that of a run without
// one.
TEST(Rollout, EveryLifeOfAWorkerHasARandomStreamOfItsOwn) {
  const Learner learner(learner_options({}));
  const auto played = [&](std::uint32_t life) {
    RolloutOptions options = rollout_options({}, 0, 0);
    options.life = life;
    RolloutWorker worker(options);
    OwnedBatch batch(worker.samples(), worker.obs_size());
    worker.collect(learner.params(), batch.out());
    return std::pair(batch.obs, batch.action);
  };
  EXPECT_EQ(played(1), played(1));
  for (const auto& [one, other] : {std::pair(0, 1), std::pair(1, 2)}) {
    EXPECT_NE(played(std::uint32_t(one)).first, played(std::uint32_t(other)).first);
    EXPECT_NE(played(std::uint32_t(one)).second, played(std::uint32_t(other)).second);
  }
}

// E.5: what an update did is told, as means over its minibatches.
TEST(Learner, AnUpdateTellsItsKlClipFractionAndEntropy) {
  LocalRun run({.num_envs = 8, .horizon = 40});
  run.iterate();
  const UpdateStats stats = run.learner().update(run.views());
  EXPECT_GT(stats.minibatches, 1);
  EXPECT_GT(stats.kl, 0);
  EXPECT_GT(stats.clip_fraction, 0);
  EXPECT_LT(stats.clip_fraction, 1);
  EXPECT_GT(stats.entropy, 0);
  EXPECT_LE(stats.entropy, std::log(2.0) + 1e-6) << "of two actions";
  TrainingLog log;
  log.steps = 640;
  log.add(stats);
  ASSERT_EQ(log.learning.size(), 1u);
  EXPECT_EQ(log.learning[0].steps, 640);
  EXPECT_FLOAT_EQ(log.learning[0].kl, static_cast<float>(stats.kl));
}

// E.5: the schedules end where the run does.
TEST(Learner, TheSchedulesFallOverTheStepsOfTheRun) {
  const LearnerOptions options = learner_options({.total_steps = 3000});
  EXPECT_DOUBLE_EQ(options.learning_rate.at(3000), options.learning_rate.last);
  EXPECT_GT(options.learning_rate.at(2000), options.learning_rate.last);
  EXPECT_DOUBLE_EQ(options.clip.at(3000), options.clip.last);
}

TEST(TrainingLog, TL1_TL2_CountsStepsOverAllWorkersAndSolvesOnce) {
  TrainingLog log;
  const std::vector<EpisodeEnd> poor(60, {.step = 3, .episode_return = 100});
  const std::vector<EpisodeEnd> good(50, {.step = 5, .episode_return = 500});
  log.add(std::vector{poor, good}, 4, 10, 1.0);
  EXPECT_EQ(log.steps, 80);
  EXPECT_EQ(log.episodes, 110);
  EXPECT_FALSE(log.solved());
  EXPECT_EQ(log.recent.size(), kReturnWindow);
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

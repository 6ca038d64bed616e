// Several learners that share their updates, as threads with a barrier in place of a collective group: LRN-4, PEER-2,
// FRG-2.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "apps/rl/config/run_config.h"
#include "apps/rl/config/runner_options.h"
#include "apps/rl/samples/fragments.h"
#include "apps/rl/samples/on_policy.h"
#include "apps/rl/samples/transitions.h"

namespace rl {
namespace {

/// Sums in the order of the ranks, between threads.
class ThreadSums {
 public:
  explicit ThreadSums(std::size_t size)
      : size_(size), floats_(size), doubles_(size), barrier_(static_cast<std::ptrdiff_t>(size)) {}

  Peers peers(std::size_t rank) { return {rank, size_, std::make_shared<Rank>(*this, rank)}; }

 private:
  class Rank final : public Reducer {
   public:
    Rank(ThreadSums& all, std::size_t rank) : all_(all), rank_(rank) {}
    void sum(std::span<float> numbers) override { all_.sum(all_.floats_, rank_, numbers); }
    void sum(std::span<double> numbers) override { all_.sum(all_.doubles_, rank_, numbers); }

   private:
    ThreadSums& all_;
    std::size_t rank_;
  };

  template <class T>
  void sum(std::vector<std::span<T>>& parts, std::size_t rank, std::span<T> own) {
    parts[rank] = own;
    barrier_.arrive_and_wait();
    std::vector<T> total(own.size());
    for (const std::span<T> part : parts) {
      EXPECT_EQ(part.size(), own.size());
      std::ranges::transform(total, part, total.begin(), std::plus<>());
    }
    barrier_.arrive_and_wait();
    std::ranges::copy(total, own.begin());
    barrier_.arrive_and_wait();
  }

  std::size_t size_;
  std::vector<std::span<float>> floats_;
  std::vector<std::span<double>> doubles_;
  std::barrier<> barrier_;
};

struct Learned {
  std::vector<float> params = {};
  UpdateReport report = {};
  std::string error = {};
};

/// What each of `size` learners holds after `updates` of these batches.
std::vector<Learned> learn(const RunConfig& config, std::size_t size, const std::vector<SampleView>& batches,
                           int updates = 3) {
  const AnyPolicySpec policy = task_of(config).value().policy;
  ThreadSums sums(size);
  std::vector<Learned> out(size);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      const auto learner = make_learner(config, policy);
      if (size > 1) learner->join(sums.peers(rank));
      try {
        for (int i = 0; i < updates; ++i) out[rank].report = learner->update(batches);
      } catch (const troupe::InvalidArgumentError& error) {
        out[rank].error = error.what();
      }
      out[rank].params.assign(learner->params().begin(), learner->params().end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

// LRN-4: ranks have equal bits, and those of one learner but for the rounding of sums.
void expect_the_same(const RunConfig& config, const std::vector<SampleView>& batches, std::vector<std::size_t> sizes) {
  const Learned one = learn(config, 1, batches).front();
  const std::vector<float> before = [&] {
    const auto fresh = make_learner(config, task_of(config).value().policy);
    return std::vector<float>(fresh->params().begin(), fresh->params().end());
  }();
  ASSERT_NE(one.params, before);
  for (const std::size_t size : sizes) {
    const std::vector<Learned> all = learn(config, size, batches);
    for (const Learned& other : all) {
      ASSERT_EQ(other.error, "");
      EXPECT_EQ(other.params, all.front().params) << size << " learners";
      EXPECT_EQ(other.report.metrics, all.front().report.metrics);
    }
    for (std::size_t i = 0; i < before.size(); ++i)
      ASSERT_NEAR(all.front().params[i], one.params[i], 2e-5) << size << " learners, parameter " << i;
    ASSERT_EQ(all.front().report.metrics.size(), one.report.metrics.size());
    for (std::size_t i = 0; i < one.report.metrics.size(); ++i) {
      EXPECT_EQ(all.front().report.metrics[i].name, one.report.metrics[i].name);
      EXPECT_NEAR(all.front().report.metrics[i].value, one.report.metrics[i].value,
                  1e-4 * (1 + std::abs(one.report.metrics[i].value)))
          << one.report.metrics[i].name << ", " << size << " learners";
    }
    ASSERT_EQ(all.front().report.td_errors.size(), one.report.td_errors.size());
    for (std::size_t i = 0; i < one.report.td_errors.size(); ++i)
      EXPECT_NEAR(all.front().report.td_errors[i], one.report.td_errors[i], 1e-4);
  }
}

RunConfig config_of(const char* algo) {
  RunConfig out = defaults_of(algo).value();
  out.network.hidden = {16};
  out.total_steps = 1'000'000;  // the learning rate hardly falls
  return out;
}

void fill(OwnedSamples& samples, std::initializer_list<const char*> columns, Generator& random) {
  for (const char* name : columns)
    for (float& x : samples.column(name).as<float>()) x = static_cast<float>(random.uniform(-1, 1));
}

OwnedSamples on_policy_batch(const RunConfig& config, std::size_t rows, std::uint64_t seed) {
  const Task task = task_of(config).value();
  OwnedSamples out(on_policy_columns(task.specs.observation_space, task.specs.action_space), rows);
  Generator random(seed);
  fill(out, {"obs", "value", "advantage", "returns"}, random);
  for (float& x : out.column("log_prob").as<float>()) x = static_cast<float>(random.uniform(-0.9, -0.5));
  for (std::int64_t& x : out.column("action").as<std::int64_t>()) x = random.integers(2);
  return out;
}

TEST(Peers, PEER2_PartsCoverAllRowsInOrder) {
  for (const std::size_t size : {1, 2, 3, 7}) {
    for (const std::size_t rows : {0, 1, 5, 7, 64}) {
      std::size_t next = 0, least = rows, most = 0;
      for (std::size_t rank = 0; rank < size; ++rank) {
        const Peers::Part part = Peers(rank, size, nullptr).part(rows);
        EXPECT_EQ(part.begin, next);
        next += part.size, least = std::min(least, part.size), most = std::max(most, part.size);
      }
      EXPECT_EQ(next, rows);
      EXPECT_LE(most - least, 1u);
    }
  }
}

TEST(Learners, LRN4_PpoIsThatOfOneLearner) {
  RunConfig config = config_of("ppo");
  config.ppo.epochs = 2, config.ppo.minibatch = 32;  // 97 rows: the last minibatch has one, and two ranks none of it
  const OwnedSamples one = on_policy_batch(config, 60, 1), two = on_policy_batch(config, 37, 2);
  expect_the_same(config, {one.view(), two.view()}, {2, 3});
  config.ppo.minibatch = 4096;  // all of it at once
  expect_the_same(config, {one.view(), two.view()}, {2});
  config.ppo.target_kl = 1e-9;  // all end after the same epoch
  expect_the_same(config, {one.view(), two.view()}, {2});
}

OwnedSamples transitions_for(const RunConfig& config, std::size_t rows) {
  const Task task = task_of(config).value();
  OwnedSamples out(transition_columns(task.specs.observation_space, task.specs.action_space), rows);
  Generator random(1);
  fill(out, {"obs", "next_obs", "reward"}, random);
  for (float& x : out.column("discount").as<float>()) x = random.random() < 0.1 ? 0.0f : 0.99f;
  return out;
}

TEST(Learners, LRN4_DqnIsThatOfOneLearner) {
  RunConfig config = config_of("dqn");
  config.dqn.target_interval = 2;
  OwnedSamples batch = transitions_for(config, 33);
  Generator random(2);
  for (std::int64_t& x : batch.column("action").as<std::int64_t>()) x = random.integers(2);
  expect_the_same(config, {batch.view()}, {2, 3});
  batch.column("action").as<std::int64_t>()[1] = 7;  // of the first rank's rows
  for (const Learned& each : learn(config, 2, {batch.view()}, 1))
    EXPECT_NE(each.error.find("7 is none of 2 actions"), std::string::npos) << each.error;
}

TEST(Learners, LRN4_SacIsThatOfOneLearner) {
  const RunConfig config = config_of("sac");
  OwnedSamples batch = transitions_for(config, 33);
  Generator random(2);
  fill(batch, {"action"}, random);
  expect_the_same(config, {batch.view()}, {2, 3});
  for (const Learned& each : learn(config, 34, {batch.view()}, 1))
    EXPECT_NE(each.error.find("33 rows for 34 learners"), std::string::npos) << each.error;
}

OwnedSamples played_fragment(const RunConfig& config) {
  const AnyPolicySpec policy = task_of(config).value().policy;
  FragmentRunner runner(fragment_runner_options(config, std::get<PolicySpec>(policy), 0, 0));
  (void)runner.play(make_learner(config, policy)->params());
  OwnedSamples out(runner.columns(), runner.rows());
  runner.write(out.layout(), out.memory());
  return out;
}

TEST(Learners, LRN4_ImpalaIsThatOfOneLearner) {
  RunConfig config = config_of("impala");
  config.num_envs = 3, config.horizon = 60;
  const OwnedSamples fragment = played_fragment(config);
  expect_the_same(config, {fragment.view(), fragment.view()}, {2, 3});
  config.impala.clip = 0.2;
  expect_the_same(config, {fragment.view()}, {2});
  config.impala.target_interval = 2;  // of three updates
  expect_the_same(config, {fragment.view()}, {2});
}

TEST(Learners, LRN3_LRN4_WhatIsNotFiniteFailsOnAllOfThem) {
  const RunConfig config = config_of("ppo");
  OwnedSamples batch = on_policy_batch(config, 40, 1);
  batch.column("returns").as<float>()[3] = std::numeric_limits<float>::quiet_NaN();  // of one rank's rows
  const std::vector<Learned> all = learn(config, 2, {batch.view()}, 1);
  for (const Learned& each : all) {
    EXPECT_NE(each.error.find("loss is nan"), std::string::npos) << each.error;
    EXPECT_EQ(each.params, all.front().params);
  }
}

TEST(Learners, OnlySomeAlgorithmsHaveSeveral) {
  for (const char* algo : {"a2c", "ars"}) {
    const RunConfig config = config_of(algo);
    const auto learner = make_learner(config, task_of(config).value().policy);
    EXPECT_THROW(learner->join(Peers(0, 2, nullptr)), troupe::InvalidArgumentError) << algo;
    EXPECT_NO_THROW(learner->join(Peers())) << algo;
    EXPECT_FALSE(config_from({{"algo", algo}, {"learners", 2}}).ok()) << algo;
  }
  EXPECT_EQ(config_from({{"algo", "sac"}, {"learners", 2}}).value().num_learners, 2u);
}

TEST(Fragments, FRG2_ChainsStayWholeAndEachRowIsInOnePart) {
  RunConfig config = config_of("impala");
  config.num_envs = 3, config.horizon = 60;
  const OwnedSamples fragment = played_fragment(config);
  const FragmentView all = fragment_view(fragment.view());
  for (const std::size_t parts : {1, 2, 5, 200}) {
    std::size_t rows = 0;
    std::vector<float> seen, expected(all.log_prob.begin(), all.log_prob.end());
    for (std::size_t part = 0; part < parts; ++part) {
      const OwnedSamples own = chains_of(fragment.view(), part, parts);
      const FragmentView view = fragment_view(own.view());
      rows += own.rows();
      seen.insert(seen.end(), view.log_prob.begin(), view.log_prob.end());
      for (std::size_t row = 0; row < own.rows(); ++row) {
        // The same row names the row with the same numbers.
        const auto was = static_cast<std::size_t>(std::ranges::find(all.log_prob, view.log_prob[row]) -
                                                  all.log_prob.begin());
        ASSERT_LT(was, all.rows());
        ASSERT_EQ(view.next[row] < 0, all.next[was] < 0);
        if (view.next[row] < 0) continue;
        ASSERT_LT(static_cast<std::size_t>(view.next[row]), own.rows());
        EXPECT_EQ(view.log_prob[static_cast<std::size_t>(view.next[row])],
                  all.log_prob[static_cast<std::size_t>(all.next[was])]);
      }
    }
    EXPECT_EQ(rows, all.rows());
    std::ranges::sort(seen), std::ranges::sort(expected);
    EXPECT_EQ(seen, expected);
  }
  OwnedSamples wrong = chains_of(fragment.view(), 0, 1);
  wrong.column("next").as<std::int64_t>()[5] = 2;
  EXPECT_THROW(chains_of(wrong.view(), 0, 2), troupe::InvalidArgumentError);
}

}  // namespace
}  // namespace rl

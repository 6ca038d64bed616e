// TRB-1 to TRB-4, RPB-1 to RPB-4, TRN-1: n-step transitions and the replay that keeps them.
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/dqn.h"
#include "apps/rl/replay/replay_buffer.h"
#include "apps/rl/replay/transition_builder.h"

namespace {

using namespace rl;

const Box kShownBox{.dtype = DType::kFloat32, .shape = {2}, .low = {-1e9}, .high = {1e9}};
constexpr Discrete kChosen{.n = 100};

template <class Error>
std::string thrown(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) { return error.what(); }
  return {};
}

// A recorded run of n environments whose observations say where they are: {environment, time}; an episode's last one is
// {environment, -time}.
class Recording {
 public:
  Recording(std::size_t envs, std::size_t steps, std::uint64_t seed) : envs_(envs) {
    Generator random(seed);
    for (std::size_t t = 0; t < steps; ++t) {
      Step step;
      for (std::size_t env = 0; env < envs; ++env) {
        step.reward.push_back(random.uniform(-1, 1));
        step.terminated.push_back(random.random() < 0.15 ? 1 : 0);
        step.truncated.push_back(random.random() < 0.1 ? 1 : 0);
        step.action.push_back(static_cast<std::int64_t>(t % 100));
        for (const float x : {static_cast<float>(env), static_cast<float>(t)}) step.obs.push_back(x);
        for (const float x : {static_cast<float>(env), static_cast<float>(t + 1)}) step.next_obs.push_back(x);
        if (step.terminated.back() == 0 && step.truncated.back() == 0) continue;
        step.ended.push_back(static_cast<std::uint32_t>(env));
        for (const float x : {static_cast<float>(env), -static_cast<float>(t + 1)}) step.final_obs.push_back(x);
      }
      step.is_reset.assign(envs, 0);
      steps_.push_back(std::move(step));
    }
  }
  struct Step {
    std::vector<float> obs, next_obs, final_obs;
    std::vector<std::int64_t> action;
    std::vector<double> reward;
    std::vector<std::uint8_t> terminated, truncated, is_reset;
    std::vector<std::uint32_t> ended;
  };
  static PlayedStep view(const Step& s) {
    return {.obs = ConstRows(std::span(s.obs), 2),
            .action = ConstRows(std::span(s.action), 1),
            .reward = s.reward,
            .terminated = s.terminated,
            .truncated = s.truncated,
            .is_reset = s.is_reset,
            .next_obs = ConstRows(std::span(s.next_obs), 2),
            .ends = {.env = s.ended, .returns = {}, .lengths = {}, .final_obs = ConstRows(std::span(s.final_obs), 2)}};
  }
  const std::vector<Step>& steps() const { return steps_; }
  std::vector<Step>& steps() { return steps_; }
  std::size_t envs() const { return envs_; }

 private:
  std::size_t envs_;
  std::vector<Step> steps_;
};

struct Wanted {
  float env, time, reward, discount, last_time;
  std::int64_t action;
  friend bool operator==(const Wanted&, const Wanted&) = default;
};

// What DQ-1 says of each start, looked up in the whole recording.
std::vector<Wanted> expected_of(const Recording& played, std::size_t env, std::size_t n, double gamma) {
  std::vector<Wanted> out;
  const auto& steps = played.steps();
  for (std::size_t t = 0; t < steps.size(); ++t) {
    std::vector<double> reward;
    std::vector<std::uint8_t> terminated, truncated;
    for (std::size_t k = t; k < std::min(t + n, steps.size()); ++k) {
      reward.push_back(steps[k].reward[env]);
      terminated.push_back(steps[k].terminated[env]), truncated.push_back(steps[k].truncated[env]);
    }
    const NStepReturn sum = n_step_return(reward, terminated, truncated, gamma);
    const std::size_t last = t + static_cast<std::size_t>(sum.steps_used) - 1;
    const bool ended = steps[last].terminated[env] != 0 || steps[last].truncated[env] != 0;
    if (!ended && sum.steps_used < static_cast<std::int64_t>(n)) continue;  // the recording stops before the window
    out.push_back({.env = static_cast<float>(env),
                   .time = static_cast<float>(t),
                   .reward = static_cast<float>(sum.discounted_reward),
                   .discount = static_cast<float>(sum.bootstrap_discount),
                   .last_time = ended ? -static_cast<float>(last + 1) : static_cast<float>(last + 1),
                   .action = static_cast<std::int64_t>(t % 100)});
  }
  return out;
}

std::vector<Wanted> built_of(const OwnedSamples& batch, std::size_t env) {
  const TransitionView all = transition_view(batch.view(), kShownBox, kChosen);
  const auto obs = all.obs.as<float>(), next_obs = all.next_obs.as<float>();
  std::vector<Wanted> out;
  for (std::size_t i = 0; i < all.rows(); ++i) {
    if (obs[2 * i] != static_cast<float>(env)) continue;
    EXPECT_EQ(next_obs[2 * i], obs[2 * i]);
    out.push_back({obs[2 * i], obs[2 * i + 1], all.reward[i], all.discount[i], next_obs[2 * i + 1],
                   all.action.as<std::int64_t>()[i]});
  }
  return out;
}

TransitionOptions transition_options(std::size_t envs, std::size_t n) {
  return {.observation_space = kShownBox, .action_space = kChosen, .num_envs = envs, .n_step = n, .gamma = 0.9};
}

TEST(TransitionBuilder, TRB1_TRB2_EveryStartHasItsWindowAndEndsBootstrapFromTheTrueLastObservation) {
  const Recording played(3, 200, 5);
  for (std::size_t n : {1u, 2u, 3u, 7u}) {
    TransitionBuilder builder(transition_options(3, n));
    for (const auto& step : played.steps()) builder.add(Recording::view(step));
    const OwnedSamples batch = builder.take();
    EXPECT_EQ(builder.rows(), 0u);
    for (std::size_t env = 0; env < 3; ++env)
      EXPECT_EQ(built_of(batch, env), expected_of(played, env, n, 0.9)) << n << " steps, environment " << env;
  }
}

TEST(TransitionBuilder, TRB1_WithoutFinalObservationsTheStepShowsTheLastOne) {
  Recording played(1, 1, 5);
  Recording::Step& step = played.steps()[0];
  step.terminated = {0}, step.truncated = {1}, step.ended = {0}, step.final_obs = {};
  TransitionBuilder builder(transition_options(1, 3));
  builder.add(Recording::view(step));
  const auto built = built_of(builder.take(), 0);
  ASSERT_EQ(built.size(), 1u);
  EXPECT_EQ(built[0].last_time, 1.0f);
  EXPECT_EQ(built[0].discount, 0.9f);
}

TEST(TransitionBuilder, TRB3_ResetRowsAndDroppedWindowsGiveNothingAndACutOneIsATruncation) {
  Recording played(2, 6, 5);
  for (auto& step : played.steps())
    step.terminated = step.truncated = {0, 0}, step.ended.clear(), step.final_obs.clear();
  TransitionBuilder builder(transition_options(2, 3));
  builder.add(Recording::view(played.steps()[0]));
  builder.add(Recording::view(played.steps()[1]));
  played.steps()[2].is_reset = {1, 0};
  builder.add(Recording::view(played.steps()[2]));  // environment 0 forgets two steps, environment 1 completes one
  builder.add(Recording::view(played.steps()[3]));
  builder.add(Recording::view(played.steps()[4]));
  builder.drop(1);
  const std::vector<float> last{0, 99};
  builder.cut(0, ConstRows(std::span(last), 2));
  const OwnedSamples batch = builder.take();
  const auto first = built_of(batch, 0), second = built_of(batch, 1);
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].time, 3.0f);
  EXPECT_EQ(first[0].last_time, 99.0f);
  EXPECT_FLOAT_EQ(first[0].discount, 0.81f);
  EXPECT_EQ(first[1].time, 4.0f);
  EXPECT_FLOAT_EQ(first[1].discount, 0.9f);
  ASSERT_EQ(second.size(), 3u);
  EXPECT_EQ(second[2].time, 2.0f);
  builder.cut(1, ConstRows(std::span(last), 2));
  EXPECT_EQ(builder.rows(), 0u);
}

TEST(TransitionBuilder, TRB4_OpenWindowsGoOnAfterARestore) {
  const Recording played(3, 60, 6);
  TransitionBuilder whole(transition_options(3, 4)), before(transition_options(3, 4)), after(transition_options(3, 4));
  for (std::size_t t = 0; t < 60; ++t) {
    whole.add(Recording::view(played.steps()[t]));
    if (t == 30) after.restore(before.save());
    (t < 30 ? before : after).add(Recording::view(played.steps()[t]));
  }
  EXPECT_EQ(after.save(), whole.save());
  TransitionBuilder other(transition_options(2, 4));
  EXPECT_NE(thrown<troupe::SerializationError>([&] { other.restore(whole.save()); }), "");
  EXPECT_EQ(other.save(), TransitionBuilder(transition_options(2, 4)).save());
}

TEST(TransitionBuilder, WhatIsNoStepIsRefused) {
  using troupe::InvalidArgumentError;
  EXPECT_NE(thrown<InvalidArgumentError>([] { TransitionBuilder builder(transition_options(0, 1)); }), "");
  EXPECT_NE(thrown<InvalidArgumentError>([] { TransitionBuilder builder(transition_options(1, 0)); }), "");
  EXPECT_NE(thrown<InvalidArgumentError>([] {
              TransitionOptions options = transition_options(1, 1);
              options.gamma = std::nan("");
              TransitionBuilder builder(options);
            }), "");
  const Recording played(2, 30, 5);
  TransitionBuilder builder(transition_options(3, 2));
  EXPECT_NE(thrown<InvalidArgumentError>([&] { builder.add(Recording::view(played.steps()[0])); }), "");
  EXPECT_NE(thrown<InvalidArgumentError>([&] { builder.drop(3); }), "");
  const std::vector<float> narrow{1};
  EXPECT_NE(thrown<InvalidArgumentError>([&] { builder.cut(0, ConstRows(std::span(narrow), 1)); }), "");
  EXPECT_EQ(builder.rows(), 0u);
  TransitionBuilder two(transition_options(2, 2));
  Recording::Step step = Recording(2, 1, 5).steps()[0];
  step.terminated = {1, 1}, step.ended = {0}, step.final_obs = {0, 0};
  EXPECT_NE(thrown<InvalidArgumentError>([&] { two.add(Recording::view(step)); }).find("environment 1"),
            std::string::npos);
  OwnedSamples wrong(two.columns(), 1);
  EXPECT_NE(thrown<InvalidArgumentError>([&] { two.take(wrong.layout(), wrong.memory()); }), "");
}

const std::vector<Column> kKept{{.name = "number", .dtype = DType::kInt64}, {.name = "pair", .width = 2}};

// Rows whose numbers go on from `first`.
OwnedSamples numbered(std::int64_t first, std::size_t rows) {
  OwnedSamples out(kKept, rows);
  const auto number = out.column("number").as<std::int64_t>();
  const auto pair = out.column("pair").as<float>();
  for (std::size_t i = 0; i < rows; ++i) {
    number[i] = first + static_cast<std::int64_t>(i);
    pair[2 * i] = static_cast<float>(number[i]), pair[2 * i + 1] = -pair[2 * i];
  }
  return out;
}

std::vector<std::int64_t> ints_of(const OwnedSamples& batch, const char* name) {
  const auto view = batch.view().column(name).as<std::int64_t>();
  return {view.begin(), view.end()};
}
std::vector<float> floats_of(const OwnedSamples& batch, const char* name) {
  const auto view = batch.view().column(name).as<float>();
  return {view.begin(), view.end()};
}

OwnedSamples sampled(ReplayBuffer& replay, std::size_t rows, std::uint64_t seed, const ReplayDraw& draw = {}) {
  OwnedSamples out(replay.sample_columns(), rows);
  Generator generator(seed);
  replay.sample(draw, generator, out);
  return out;
}

TEST(ReplayBuffer, RPB1_RPB2_UniformDrawsSeeTheLastRowsAlikeWithTheirColumnsTogether) {
  for (std::size_t piece : {1u, 3u, 10u, 27u}) {  // 27: more than there is room for
    ReplayBuffer replay({.columns = kKept, .capacity = 10});
    for (std::int64_t first = 0; first < 54; first += static_cast<std::int64_t>(piece))
      replay.add(numbered(first, std::min<std::size_t>(piece, static_cast<std::size_t>(54 - first))).view());
    EXPECT_EQ(replay.rows(), 10u);
    const OwnedSamples batch = sampled(replay, 20'000, 3);
    const auto number = ints_of(batch, "number"), index = ints_of(batch, "index");
    const auto pair = floats_of(batch, "pair"), weight = floats_of(batch, "weight");
    std::vector<int> seen(54);
    for (std::size_t i = 0; i < number.size(); ++i) {
      ++seen[static_cast<std::size_t>(number[i])];
      ASSERT_EQ(pair[2 * i], static_cast<float>(number[i]));
      ASSERT_EQ(pair[2 * i + 1], -static_cast<float>(number[i]));
      ASSERT_EQ(index[i], number[i] % 10);
      ASSERT_EQ(weight[i], 1.0f);
    }
    for (std::size_t i = 0; i < 54; ++i) {
      if (i < 44) EXPECT_EQ(seen[i], 0) << i;
      else EXPECT_NEAR(seen[i], 2000, 200) << i;  // 4.7 deviations
    }
  }
}

// The error of the row with that number, so that masses and weights are known.
float error_of(std::int64_t number) { return 0.1f * static_cast<float>(number + 1); }

ReplayBuffer prioritized(std::size_t capacity, std::int64_t first, std::size_t rows) {
  ReplayBuffer replay({.columns = kKept, .capacity = capacity, .priorities = PriorityOptions{.alpha = 0.6}});
  replay.add(numbered(first, rows).view());
  std::vector<std::int64_t> index(rows), generation(rows, 1);
  std::iota(index.begin(), index.end(), 0);
  std::vector<float> errors;
  for (const std::int64_t i : index) errors.push_back(error_of(first + i));
  EXPECT_EQ(replay.update_priorities(index, generation, errors), 0u);
  return replay;
}

TEST(ReplayBuffer, RPB2_PrioritiesAreStratifiedAndWeighted) {
  ReplayBuffer replay = prioritized(16, 0, 12);
  const std::size_t draws = 1000;
  const OwnedSamples batch = sampled(replay, draws, 4, {.beta = 0.5});
  const auto mass = [](std::size_t i) {
    return std::pow(static_cast<double>(error_of(static_cast<std::int64_t>(i))) + 1e-6, 0.6);
  };
  double total = 0;
  for (std::size_t i = 0; i < 12; ++i) total += mass(i);
  EXPECT_NEAR(replay.mass().total, total, 1e-9);
  EXPECT_NEAR(replay.mass().smallest, mass(0), 1e-12);
  std::vector<int> seen(12);
  const auto number = ints_of(batch, "number");
  const auto weight = floats_of(batch, "weight");
  for (std::size_t i = 0; i < draws; ++i) {
    const auto row = static_cast<std::size_t>(number[i]);
    ++seen[row];
    ASSERT_NEAR(weight[i], std::pow(mass(row) / mass(0), -0.5), 1e-6);
  }
  // Strata: at most the two at a row's borders are in doubt.
  for (std::size_t i = 0; i < 12; ++i) EXPECT_NEAR(seen[i], 1000 * mass(i) / total, 2) << i;
}

TEST(ReplayBuffer, RPB1_ANewRowHasTheLargestErrorSoFar) {
  ReplayBuffer replay({.columns = kKept, .capacity = 8, .priorities = PriorityOptions{.alpha = 1}});
  replay.add(numbered(0, 1).view());
  EXPECT_NEAR(replay.mass().total, 1, 1e-5);
  const std::vector<std::int64_t> index{0}, generation{1};
  const std::vector<float> large{5}, small{0.5};
  replay.update_priorities(index, generation, large);
  replay.update_priorities(index, generation, small);
  replay.add(numbered(1, 1).view());
  EXPECT_NEAR(replay.mass().total, 5.5, 1e-5);
}

TEST(ReplayBuffer, RPB3_APriorityOfAReplacedRowIsIgnored) {
  ReplayBuffer replay = prioritized(4, 0, 4);
  const OwnedSamples batch = sampled(replay, 4, 1);
  EXPECT_EQ(ints_of(batch, "generation"), (std::vector<std::int64_t>{1, 1, 1, 1}));
  replay.add(numbered(4, 2).view());  // replaces rows 0 and 1
  const ReplayMass before = replay.mass();
  const std::vector<std::int64_t> index{0, 1, 2}, old{1, 1, 1}, present{2, 2, 1};
  const std::vector<float> errors{7, 8, 0.3f};
  EXPECT_EQ(replay.update_priorities(index, old, errors), 2u);
  EXPECT_EQ(replay.mass(), before);  // row 2 had 0.3
  EXPECT_EQ(replay.update_priorities(index, present, errors), 0u);
  EXPECT_GT(replay.mass().total, before.total + 3);
}

TEST(ReplayBuffer, RPB2_ShardsAreOneReplay) {
  ReplayBuffer whole = prioritized(12, 0, 12), left = prioritized(4, 0, 4), right = prioritized(8, 4, 8);
  const std::vector<ReplayMass> masses{left.mass(), ReplayMass{}, right.mass()};
  const ReplayMass all = merged(masses);
  EXPECT_EQ(all.rows, 12u);
  EXPECT_NEAR(all.total, whole.mass().total, 1e-12);
  EXPECT_EQ(all.smallest, whole.mass().smallest);
  Generator generator(8);
  const auto draws = allot_draws(masses, 1000, generator);
  EXPECT_EQ(draws[0] + draws[2], 1000u);
  EXPECT_EQ(draws[1], 0u);
  EXPECT_NEAR(static_cast<double>(draws[0]), 1000 * left.mass().total / all.total, 2);
  std::vector<float> want(12), got(12);
  const auto collect = [](const OwnedSamples& batch, std::vector<float>& into) {
    for (std::size_t i = 0; i < batch.rows(); ++i)
      into[static_cast<std::size_t>(ints_of(batch, "number")[i])] = floats_of(batch, "weight")[i];
  };
  collect(sampled(whole, 200, 2), want);
  collect(sampled(left, 100, 2, {.all = all}), got), collect(sampled(right, 100, 2, {.all = all}), got);
  EXPECT_EQ(got, want);
  EXPECT_LT(got[11], 0.6f);
  EXPECT_NE(thrown<troupe::InvalidArgumentError>([&] {
              const std::vector<ReplayMass> none(2);
              static_cast<void>(allot_draws(none, 1, generator));
            }), "");
}

TEST(ReplayBuffer, RPB4_ARestoredOneDrawsTheSame) {
  for (const bool priorities : {false, true}) {
    const ReplayBufferOptions options{
        .columns = kKept, .capacity = 10,
        .priorities = priorities ? std::optional(PriorityOptions{}) : std::nullopt};
    for (std::size_t rows : {0u, 6u, 25u}) {
      ReplayBuffer first(options), copy(options);
      first.add(numbered(0, rows).view());
      copy.add(numbered(70, 13).view());  // what it had before is gone
      if (priorities && rows > 0) {
        const OwnedSamples batch = sampled(first, 5, 1);
        first.update_priorities(ints_of(batch, "index"), ints_of(batch, "generation"),
                                std::vector<float>{3.3f, 0.1f, 0.7f, 9.0f, 0.0f});
      }
      copy.restore(first.save());
      EXPECT_EQ(copy.save(), first.save());
      EXPECT_EQ(copy.mass(), first.mass());
      first.add(numbered(100, 3).view()), copy.add(numbered(100, 3).view());
      const OwnedSamples want = sampled(first, 50, 9), got = sampled(copy, 50, 9);
      for (const char* name : {"number", "index", "generation"}) EXPECT_EQ(ints_of(got, name), ints_of(want, name));
      EXPECT_EQ(floats_of(got, "weight"), floats_of(want, "weight"));
    }
  }
  ReplayBuffer small({.columns = kKept, .capacity = 5}), large({.columns = kKept, .capacity = 6});
  small.add(numbered(0, 5).view()), large.add(numbered(0, 6).view());
  const StateDict before = small.save();
  EXPECT_NE(thrown<troupe::SerializationError>([&] { small.restore(large.save()); }), "");
  EXPECT_NE(thrown<troupe::SerializationError>([&] { small.restore(StateDict{}); }), "");
  EXPECT_EQ(small.save(), before);
}

TEST(ReplayBuffer, BadInputIsRefusedAndChangesNothing) {
  using troupe::InvalidArgumentError;
  const auto refused = [](const ReplayBufferOptions& options) {
    return thrown<InvalidArgumentError>([&] { ReplayBuffer replay(options); }) != "";
  };
  EXPECT_TRUE(refused({.columns = kKept, .capacity = 0}));
  EXPECT_TRUE(refused({.columns = {}, .capacity = 1}));
  EXPECT_TRUE(refused({.columns = {{.name = "weight"}}, .capacity = 1}));
  EXPECT_TRUE(refused({.columns = kKept, .capacity = 1, .priorities = PriorityOptions{.alpha = -1}}));
  EXPECT_TRUE(refused({.columns = kKept, .capacity = 1, .priorities = PriorityOptions{.epsilon = 0}}));

  ReplayBuffer empty({.columns = kKept, .capacity = 3});
  EXPECT_NE(thrown<InvalidArgumentError>([&] { static_cast<void>(sampled(empty, 1, 1)); }).find("empty"),
            std::string::npos);
  EXPECT_NE(thrown<InvalidArgumentError>([&] { empty.add(OwnedSamples({{.name = "number"}}, 1).view()); }), "");
  EXPECT_NE(thrown<InvalidArgumentError>([&] { empty.update_priorities({}, {}, {}); }), "");
  EXPECT_EQ(empty.rows(), 0u);

  ReplayBuffer replay = prioritized(8, 0, 4);
  const ReplayMass before = replay.mass();
  const auto update = [&](std::vector<std::int64_t> index, std::vector<float> errors) {
    const std::vector<std::int64_t> generation(2, 1);
    return thrown<InvalidArgumentError>([&] { replay.update_priorities(index, generation, errors); });
  };
  EXPECT_NE(update({0, 4}, {1, 1}), "");
  EXPECT_NE(update({0, -1}, {1, 1}), "");
  EXPECT_NE(update({0, 1}, {1}), "");
  EXPECT_NE(update({0, 1}, {1, std::nanf("")}), "");
  EXPECT_NE(update({0, 1}, {1, -1}), "");
  EXPECT_EQ(replay.mass(), before);
  OwnedSamples wrong(kKept, 2);
  Generator generator(1);
  EXPECT_NE(thrown<InvalidArgumentError>([&] { replay.sample({}, generator, wrong); }), "");
}

}  // namespace

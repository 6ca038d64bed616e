// BE-2, BE-3, BE-5: Gymnasium's vector environments step by step, for the environments that any
// name makes, in every version.
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/sync_vector_env.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;

template <class Body>
void for_each_case(Body body) {
  const auto files = golden::files_of(golden::Kind::kAutoReset);
  if (files.empty()) GTEST_SKIP() << "no recorded vector runs";
  for (const golden::File* file : files) {
    for (const value& c : file->content.at("cases").as_array()) {
      SCOPED_TRACE(file->path.string() + " " + golden::text(at(c, "name")));
      body(golden::text(file->content.at("env_id")), c);
    }
  }
}

rl::AutoReset mode_of(const value& c) {
  return golden::text(at(c, "mode")) == "SameStep" ? rl::AutoReset::kSameStep : rl::AutoReset::kNextStep;
}

// Where the statistics of ended episodes lie: in infos, or inside final_info; null without them.
const value* statistics(const value& infos) {
  if (const value* episode = infos.as_object().if_contains("episode")) return episode;
  if (const value* info = infos.as_object().if_contains("final_info")) return info->as_object().if_contains("episode");
  return nullptr;
}

void expect_floats(std::span<const float> got, const std::vector<float>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_LE(std::abs(got[i] - want[i]), tolerance) << i;
}

/// `state(i)`: the state of environment i in double, where it can be seen. `tolerance`: of observations.
template <class State>
void run_env(rl::BatchEnv& env, const value& c, double tolerance, State state) {
  const std::size_t n = env.size();
  std::vector<std::uint64_t> seeds(n);
  std::iota(seeds.begin(), seeds.end(), static_cast<std::uint64_t>(golden::integer(at(c, "seed"))));
  env.reset(seeds);
  rl::StepBuffers got(env);
  env.observe(got.obs.view());
  expect_floats(got.obs.as<float>(), golden::floats(at(at(c, "reset"), "obs")), 0);
  const bool next_step = mode_of(c) == rl::AutoReset::kNextStep;
  std::vector<std::uint8_t> ended_before(n);
  std::size_t t = 0;
  for (const value& step : at(c, "steps").as_array()) {
    SCOPED_TRACE(t++);
    std::vector<std::int64_t> actions;
    for (double a : golden::numbers(at(step, "action"))) actions.push_back(static_cast<std::int64_t>(a));
    env.step(rl::ConstRows(std::span(actions), 1), got.out());
    expect_floats(got.obs.as<float>(), golden::floats(at(step, "obs")), tolerance);
    ASSERT_EQ(got.reward, golden::numbers(at(step, "reward")));
    ASSERT_EQ(got.terminated, golden::flags(at(step, "terminated")));
    ASSERT_EQ(got.truncated, golden::flags(at(step, "truncated")));
    ASSERT_EQ(got.is_reset, ended_before);
    const value& infos = at(step, "infos");
    const value* final_obs = infos.as_object().if_contains("final_obs");
    const value* episodes = statistics(infos);
    const rl::EpisodeEnds ends = env.ends();
    ASSERT_EQ(ends.final_obs.rows(), next_step ? 0 : ends.env.size());
    const std::vector<double> states = golden::numbers(at(step, "state"));
    std::size_t ended = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::vector<double> now = state(i);
      for (std::size_t k = 0; k < now.size(); ++k) ASSERT_NEAR(now[k], states[i * now.size() + k], 1e-12);
      const bool ends_now = got.terminated[i] != 0 || got.truncated[i] != 0;
      ended_before[i] = next_step && ends_now;
      if (!ends_now) continue;
      ASSERT_LT(ended, ends.env.size());
      ASSERT_EQ(ends.env[ended], i);
      if (episodes != nullptr) {
        ASSERT_EQ(ends.returns[ended], golden::number(at(*episodes, "r").as_array()[i]));
        ASSERT_EQ(ends.lengths[ended], golden::integer(at(*episodes, "l").as_array()[i]));
      }
      if (!next_step) {
        ASSERT_TRUE(final_obs != nullptr);
        expect_floats(ends.final_obs.row(ended).as<float>(), golden::floats(final_obs->as_array()[i]), tolerance);
      }
      ++ended;
    }
    ASSERT_EQ(ends.env.size(), ended);
  }
}

rl::BatchEnvOptions options_of(const value& c) {
  return {.num_envs = static_cast<std::size_t>(golden::integer(at(c, "num_envs"))),
          .auto_reset = mode_of(c),
          .max_episode_steps = static_cast<int>(golden::integer(at(c, "max_episode_steps")))};
}

TEST(GoldenAutoReset, SyncVectorEnv) {
  for_each_case([](const std::string& id, const value& c) {
    const auto env = rl::SyncVectorEnv::make(id, options_of(c)).value();
    run_env(*env, c, 0, [&](std::size_t i) {
      return std::vector<double>(env->env(i).state().begin(), env->env(i).state().end());
    });
  });
}

TEST(GoldenAutoReset, CVE2_EveryVersionOfWhatTheNameMakes) {
  for (auto isa : troupe::kernels::kAllIsas) {
    if (!isa_supported(isa)) continue;
    SCOPED_TRACE(std::string(isa_name(isa)));
    for_each_case([isa](const std::string& id, const value& c) {
      rl::BatchEnvOptions options = options_of(c);
      options.isa = isa;
      const auto env = rl::make_batch_env(id, options).value();
      run_env(*env, c, isa == troupe::kernels::Isa::kReference ? 0 : 1e-6,
              [](std::size_t) { return std::vector<double>(); });
    });
  }
}

}  // namespace

// VE-1, VE-2, VE-3: Gymnasium's vector environments step by step, for the general vector environment and for every
// version of the CartPole batch.
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "apps/rl/envs/cartpole_batch.h"
#include "apps/rl/envs/vector_env.h"
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

TEST(GoldenAutoReset, VectorEnv) {
  for_each_case([](const std::string& id, const value& c) {
    const auto n = static_cast<std::size_t>(golden::integer(at(c, "num_envs")));
    auto made =
        rl::VectorEnv::make(id, {.num_envs = n,
                                 .auto_reset = mode_of(c),
                                 .max_episode_steps = static_cast<int>(golden::integer(at(c, "max_episode_steps")))});
    ASSERT_TRUE(made.ok());
    rl::VectorEnv& env = *made;
    env.reset(static_cast<std::uint64_t>(golden::integer(at(c, "seed"))));
    EXPECT_EQ(env.last().obs, golden::floats(at(at(c, "reset"), "obs")));
    const std::size_t width = env.last().obs.size() / n;
    std::size_t t = 0;
    for (const value& step : at(c, "steps").as_array()) {
      SCOPED_TRACE(t++);
      std::vector<rl::Action> actions;
      for (double a : golden::numbers(at(step, "action"))) actions.push_back({.value = a});
      const rl::VectorStep& got = env.step(actions);
      ASSERT_EQ(got.obs, golden::floats(at(step, "obs")));
      ASSERT_EQ(got.reward, golden::numbers(at(step, "reward")));
      ASSERT_EQ(got.terminated, golden::flags(at(step, "terminated")));
      ASSERT_EQ(got.truncated, golden::flags(at(step, "truncated")));
      const std::vector<double> states = golden::numbers(at(step, "state"));
      const value& infos = at(step, "infos");
      const value* final_obs = infos.as_object().if_contains("final_obs");
      const value* episodes = statistics(infos);
      for (std::size_t i = 0; i < n; ++i) {
        const auto state = env.env(i).state();
        for (std::size_t k = 0; k < state.size(); ++k) ASSERT_NEAR(state[k], states[i * state.size() + k], 1e-12);
        if (final_obs != nullptr && !final_obs->as_array()[i].is_null()) {
          const auto want = golden::floats(final_obs->as_array()[i]);
          for (std::size_t k = 0; k < width; ++k) ASSERT_EQ(got.final_obs[i * width + k], want[k]);
        }
        if (episodes != nullptr && golden::flag(at(*episodes, "_r").as_array()[i])) {
          ASSERT_EQ(got.episode_return[i], golden::number(at(*episodes, "r").as_array()[i]));
          ASSERT_EQ(got.episode_length[i], golden::integer(at(*episodes, "l").as_array()[i]));
        }
      }
    }
  });
}

void run_batch(const value& c, troupe::kernels::Isa isa) {
  const auto n = static_cast<std::size_t>(golden::integer(at(c, "num_envs")));
  rl::CartPoleBatch batch({.num_envs = n,
                           .auto_reset = mode_of(c),
                           .max_episode_steps = static_cast<int>(golden::integer(at(c, "max_episode_steps"))),
                           .isa = isa});
  batch.reset(static_cast<std::uint64_t>(golden::integer(at(c, "seed"))));
  std::size_t t = 0;
  for (const value& step : at(c, "steps").as_array()) {
    SCOPED_TRACE(t++);
    const std::vector<std::uint8_t> actions = golden::flags(at(step, "action"));
    batch.step(actions);
    const auto want_obs = golden::floats(at(step, "obs"));
    const auto rewards = golden::numbers(at(step, "reward"));
    const value* final_obs = at(step, "infos").as_object().if_contains("final_obs");
    const value* episodes = statistics(at(step, "infos"));
    ASSERT_EQ(std::vector(batch.terminated().begin(), batch.terminated().end()), golden::flags(at(step, "terminated")));
    ASSERT_EQ(std::vector(batch.truncated().begin(), batch.truncated().end()), golden::flags(at(step, "truncated")));
    std::size_t ended = 0;
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(static_cast<double>(batch.reward()[i]), rewards[i]);
      for (std::size_t k = 0; k < 4; ++k) ASSERT_NEAR(batch.obs(k)[i], want_obs[4 * i + k], 1e-6);
      if (final_obs != nullptr && !final_obs->as_array()[i].is_null()) {
        const auto want = golden::floats(final_obs->as_array()[i]);
        for (std::size_t k = 0; k < 4; ++k) ASSERT_NEAR(batch.final_obs(k)[i], want[k], 1e-6);
      }
      if (batch.terminated()[i] != 0 || batch.truncated()[i] != 0) {
        ASSERT_LT(ended, batch.ended().size());
        ASSERT_EQ(batch.ended()[ended], i);
        if (episodes != nullptr) {
          ASSERT_EQ(batch.ended_length()[ended], golden::integer(at(*episodes, "l").as_array()[i]));
        }
        ++ended;
      }
    }
    ASSERT_EQ(batch.ended().size(), ended);
  }
}

TEST(GoldenAutoReset, EveryVersionOfTheCartPoleBatch) {
  for (auto isa : troupe::kernels::kAllIsas) {
    if (!isa_supported(isa)) continue;
    SCOPED_TRACE(std::string(isa_name(isa)));
    for_each_case([isa](const std::string& id, const value& c) {
      if (id == "CartPole-v1") run_batch(c, isa);
    });
  }
}

}  // namespace

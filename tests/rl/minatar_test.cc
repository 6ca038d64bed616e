// MAT-3, BE-2 to BE-6: MinAtar's games as batches.
#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/minatar/game.h"

namespace rl {
namespace {

std::vector<std::uint64_t> seeds(std::size_t n, std::uint64_t first) {
  std::vector<std::uint64_t> out(n);
  std::iota(out.begin(), out.end(), first);
  return out;
}

std::vector<std::byte> bytes(ConstRows rows) { return {rows.data(), rows.data() + rows.bytes()}; }

class Player {
 public:
  Player(std::string_view id, const BatchEnvOptions& options)
      : env(make_batch_env(id, options).value()), last(*env), actions(env->size()) {
    env->reset(seeds(env->size(), 3));
  }
  void step() { env->step(ConstRows(std::span(actions), 1), last.out()); }
  /// Random actions.
  void play() {
    const auto n = static_cast<std::uint32_t>(std::get<Discrete>(env->specs().action_space).n);
    for (std::int64_t& a : actions) a = random_.integers(n);
    step();
  }
  std::vector<std::byte> now() {
    OwnedRows rows(env->specs().observation_space, env->size());
    env->observe(rows.view());
    return bytes(rows.view());
  }

  std::unique_ptr<BatchEnv> env;
  StepBuffers last;
  std::vector<std::int64_t> actions;

 private:
  Generator random_{8};
};

TEST(MinAtarVectorEnvTest, SpacesAreThePackages) {
  struct Want {
    std::string_view id;
    std::size_t channels;
    std::int64_t actions;
  };
  for (const Want& want : {Want{"MinAtar/Breakout-v1", 4, 3}, Want{"MinAtar/Breakout-v0", 4, 6},
                           Want{"MinAtar/SpaceInvaders-v1", 6, 4}, Want{"MinAtar/SpaceInvaders-v0", 6, 6}}) {
    const EnvSpecs specs = make_batch_env(want.id, {}).value()->specs();
    EXPECT_EQ(specs.id, want.id);
    EXPECT_EQ(dtype_of(specs.observation_space), DType::kBool);
    EXPECT_EQ(shape_of(specs.observation_space), (std::vector<std::size_t>{10, 10, want.channels}));
    EXPECT_TRUE(check_space(specs.observation_space).ok());
    EXPECT_EQ(specs.action_space, Space(Discrete{.n = want.actions}));
    EXPECT_EQ(specs.max_episode_steps, std::nullopt);
  }
}

TEST(MinAtarVectorEnvTest, BE2_BE5_EpisodesEndByTheTaskOrByTheLimitAndTheNextIsShown) {
  Player player("MinAtar/SpaceInvaders-v1", {.num_envs = 16, .max_episode_steps = 60});
  const std::vector<std::byte> beginning = player.now();
  const std::size_t width = beginning.size() / 16;
  int terminated = 0, truncated = 0;
  std::vector<double> returns(16);
  for (int t = 0; t < 400; ++t) {
    player.play();
    const EpisodeEnds ends = player.env->ends();
    ASSERT_EQ(ends.final_obs.rows(), ends.env.size());
    EXPECT_EQ(player.now(), bytes(player.last.obs.view()));
    for (std::size_t i = 0; i < 16; ++i) returns[i] += player.last.reward[i];
    for (std::size_t k = 0; k < ends.env.size(); ++k) {
      const std::uint32_t env = ends.env[k];
      EXPECT_EQ(player.last.truncated[env] != 0, ends.lengths[k] == 60);
      EXPECT_TRUE(player.last.truncated[env] != 0 || player.last.terminated[env] != 0);
      terminated += player.last.terminated[env];
      truncated += player.last.truncated[env];
      EXPECT_EQ(ends.returns[k], std::exchange(returns[env], 0));
      // All games of Space Invaders begin alike.
      EXPECT_EQ(bytes(player.last.obs.view().row(env)),
                std::vector(beginning.begin(), beginning.begin() + static_cast<std::ptrdiff_t>(width)));
      EXPECT_NE(bytes(ends.final_obs.row(k)), bytes(player.last.obs.view().row(env)));
    }
  }
  EXPECT_GT(terminated, 10);
  EXPECT_GT(truncated, 10);
}

TEST(MinAtarVectorEnvTest, MAT3_TheSameSeedsPlayTheSameGames) {
  for (std::string_view id : {"MinAtar/Breakout-v0", "MinAtar/SpaceInvaders-v0"}) {
    Player one(id, {.num_envs = 5}), two(id, {.num_envs = 5});
    for (int t = 0; t < 100; ++t) two.play();  // ends with another action than none
    two.env->reset(seeds(5, 3));
    for (int t = 0; t < 300; ++t) {
      for (std::size_t i = 0; i < 5; ++i) one.actions[i] = two.actions[i] = (t * 7 + static_cast<int>(i)) % 6;
      one.step(), two.step();
      ASSERT_EQ(bytes(one.last.obs.view()), bytes(two.last.obs.view())) << id << " " << t;
      ASSERT_EQ(one.last.reward, two.last.reward);
    }
  }
}

TEST(MinAtarVectorEnvTest, StickyActionsAreAsOftenAsAsked) {
  constexpr std::size_t kGames = 4096;
  for (double probability : {0.0, 0.1, 0.5, 1.0}) {
    Player player("MinAtar/SpaceInvaders-v1",
                  {.num_envs = kGames, .kwargs = {{"sticky_action_prob", probability}}});
    std::fill(player.actions.begin(), player.actions.end(), 1);  // left; taken again would be: none
    player.step();
    std::size_t stuck = 0;
    for (std::size_t i = 0; i < kGames; ++i)
      stuck += player.last.obs.as<bool>()[i * 600 + 9 * 60 + 5 * 6] ? 1 : 0;  // the cannon is where it was
    EXPECT_NEAR(static_cast<double>(stuck) / kGames, probability,
                4 * std::sqrt(probability * (1 - probability) / kGames));
  }
}

TEST(MinAtarVectorEnvTest, ArgumentsThatMakeNoSenseAreRefused) {
  const auto refused = [](boost::json::object kwargs) {
    const auto made = make_batch_env("MinAtar/Breakout-v1", {.kwargs = std::move(kwargs)});
    return made.ok() ? std::string() : std::string(made.error().what());
  };
  EXPECT_NE(refused({{"sticky", 0.1}}).find("sticky_action_prob"), std::string::npos);
  EXPECT_NE(refused({{"sticky_action_prob", "much"}}).find("much"), std::string::npos);
  EXPECT_NE(refused({{"sticky_action_prob", 1.5}}).find("1.5"), std::string::npos);
  EXPECT_NE(refused({{"difficulty_ramping", 1}}).find("difficulty_ramping"), std::string::npos);
  EXPECT_EQ(refused({{"sticky_action_prob", 0}, {"difficulty_ramping", false}}), "");
  EXPECT_FALSE(make_batch_env("MinAtar/Breakout-v1", {.num_envs = 0}).ok());
  EXPECT_FALSE(make_batch_env("MinAtar/Breakout-v1", {.max_episode_steps = 0}).ok());
}

}  // namespace
}  // namespace rl

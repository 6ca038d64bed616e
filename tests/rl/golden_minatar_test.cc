// MAT-1, MAT-2, MAT-3: recorded games of the package, with the draws that it made.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/minatar/breakout.h"
#include "apps/rl/envs/minatar/space_invaders.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;
namespace minatar = rl::minatar;

/// What the package drew. Asking for more than it did, or for another choice, is a failure.
class RecordedDraws final : public minatar::Draws {
 public:
  RecordedDraws(std::string uniform, std::vector<double> choices)
      : uniform_(std::move(uniform)), choices_(std::move(choices)) {}
  double uniform() override {
    const std::size_t first = 3 * uniform_used_++;
    if (first + 3 > uniform_.size()) return ADD_FAILURE() << "a uniform draw too many", 0;
    return std::stoi(uniform_.substr(first, 3)) / 1000.0;
  }
  int choice(int choices) override {
    EXPECT_EQ(choices, 2);
    if (choices_used_ >= choices_.size()) return ADD_FAILURE() << "a choice too many", 0;
    return static_cast<int>(choices_[choices_used_++]);
  }
  [[nodiscard]] bool all_used() const {
    return 3 * uniform_used_ == uniform_.size() && choices_used_ == choices_.size();
  }

 private:
  std::string uniform_;
  std::vector<double> choices_;
  std::size_t uniform_used_ = 0, choices_used_ = 0;
};

/// FNV-1a over the bytes, 32 bits folded into 16.
std::uint32_t digest(std::span<const std::uint8_t> board) {
  std::uint32_t hash = 2166136261u;
  for (std::uint8_t byte : board) hash = (hash ^ byte) * 16777619u;
  return (hash >> 16) ^ (hash & 0xffff);
}

std::unique_ptr<minatar::Game> make_game(const std::string& name, bool ramping) {
  if (name == "breakout") return std::make_unique<minatar::Breakout>();
  return std::make_unique<minatar::SpaceInvaders>(ramping);
}

struct Played {
  std::int64_t steps = 0, ends = 0;
  int ramp_max = 0;
  double return_max = 0;
};

void replay(const std::string& name, const value& episode, Played& played) {
  RecordedDraws draws(golden::text(at(episode, "uniform")), golden::numbers(at(episode, "choices")));
  minatar::StickyGame game(make_game(name, golden::flag(at(episode, "difficulty_ramping"))),
                           golden::number(at(episode, "sticky_action_prob")));
  const std::string actions = golden::text(at(episode, "action")), rewards = golden::text(at(episode, "reward"));
  const std::string obs = golden::text(at(episode, "obs"));
  std::vector<std::uint8_t> board(100 * game.game().channels());
  const auto expect_board = [&](std::size_t index) {
    game.game().observe(board);
    ASSERT_EQ(digest(board), std::stoul(obs.substr(4 * index, 4), nullptr, 16)) << "observation " << index;
  };
  game.reset(draws);
  expect_board(0);
  double total = 0;
  ASSERT_EQ(static_cast<std::int64_t>(actions.size()), golden::integer(at(episode, "steps")));
  for (std::size_t t = 0; t < actions.size(); ++t) {
    const minatar::GameOutcome outcome = game.step(static_cast<minatar::Move>(actions[t] - '0'), draws);
    ASSERT_EQ(outcome.reward, rewards[t] - '0') << t;
    ASSERT_EQ(outcome.terminal, t + 1 == actions.size() && golden::flag(at(episode, "terminal"))) << t;
    ASSERT_NO_FATAL_FAILURE(expect_board(t + 1));
    total += outcome.reward;
  }
  EXPECT_TRUE(draws.all_used());
  EXPECT_EQ(total, golden::number(at(episode, "return")));
  if (!at(episode, "ramp_index").is_null()) {
    EXPECT_EQ(game.game().ramp(), golden::integer(at(episode, "ramp_index")));
  }
  played.steps += static_cast<std::int64_t>(actions.size());
  played.ends += golden::flag(at(episode, "terminal"));
  played.ramp_max = std::max(played.ramp_max, game.game().ramp());
  played.return_max = std::max(played.return_max, total);
}

TEST(GoldenMinAtar, MAT1_MAT2_EveryStepOfEveryRecordedGame) {
  const auto files = golden::files_of(golden::Kind::kMinAtar);
  if (files.empty()) GTEST_SKIP() << "no recorded games";
  std::map<std::string, Played> played;
  for (const golden::File* file : files) {
    const std::string name = golden::text(file->content.at("game"));
    std::size_t index = 0;
    for (const value& episode : file->content.at("episodes").as_array()) {
      SCOPED_TRACE(file->path.string() + " episode " + std::to_string(index++));
      ASSERT_NO_FATAL_FAILURE(replay(name, episode, played[name]));
    }
  }
  if (!golden::is_default_folder()) return;
  // The recording gets as far as the rules go: a second wall, and waves until they become no faster.
  EXPECT_GT(played["breakout"].return_max, 60);
  EXPECT_GE(played["breakout"].ends, 20);
  EXPECT_EQ(played["space_invaders"].ramp_max, 6);
  EXPECT_GE(played["space_invaders"].ends, 20);
}

}  // namespace

// MinAtar's Breakout: a paddle at the bottom, a ball that moves diagonally, three rows of bricks worth 1 each. All
// bricks gone, three new rows come when the ball reaches the bottom. The ball past the paddle ends the game.
//
// One thread at a time; MAT-1 to MAT-3 of game.h. Channels: paddle, ball, trail, brick.
#pragma once

#include "apps/rl/envs/minatar/game.h"

namespace rl::minatar {

class Breakout final : public Game {
 public:
  [[nodiscard]] std::size_t channels() const override { return 4; }
  [[nodiscard]] std::span<const Move> minimal_moves() const override;
  void reset(Draws& draws) override;
  GameOutcome step(Move move) override;
  void observe(std::span<std::uint8_t> board) const override;
  void visit(StateVisitor& visitor) override;

 private:
  struct Cell {
    int y, x;
  };
  bool hit_brick(Cell& next);
  bool reach_bottom(Cell& next);

  Cell ball_{}, last_{};      // last_: the trail
  int down_ = 1, right_ = 1;  // the ball's direction: 1 or -1
  int paddle_ = 0;
  bool inside_bricks_ = false;  // the ball has just broken one: the next one it meets stays
  Plane bricks_;
};

}  // namespace rl::minatar

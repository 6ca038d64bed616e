// MinAtar's Space Invaders: a cannon at the bottom, aliens above that move sideways, down at the edges, and shoot. Each
// alien shot is worth 1; the fewer there are, the faster they move. A wave that is gone is followed by one that is
// faster (ramping). An alien or a bullet on the cannon ends the game, and so do aliens at the bottom that turn.
//
// One thread at a time; MAT-1 to MAT-3 of game.h (it draws nothing). Channels: cannon, alien, alien that moves left,
// alien that moves right, own bullet, aliens' bullet.
#pragma once

#include "apps/rl/envs/minatar/game.h"

namespace rl::minatar {

class SpaceInvaders final : public Game {
 public:
  explicit SpaceInvaders(bool difficulty_ramping) : difficulty_ramping_(difficulty_ramping) {}
  [[nodiscard]] std::size_t channels() const override { return 6; }
  [[nodiscard]] std::span<const Move> minimal_moves() const override;
  void reset(Draws& draws) override;
  GameOutcome step(Move move) override;
  void observe(std::span<std::uint8_t> board) const override;
  [[nodiscard]] int ramp() const override { return ramp_; }
  void visit(StateVisitor& visitor) override;

 private:
  void move_cannon(Move move);
  [[nodiscard]] bool move_aliens();
  void shoot_back();
  void next_wave();

  bool difficulty_ramping_;
  int cannon_ = 0;
  Plane own_bullets_, enemy_bullets_, aliens_;
  int direction_ = -1;      // of the aliens
  int move_interval_ = 0;   // between their moves, at most
  int move_timer_ = 0, enemy_shot_timer_ = 0, own_shot_timer_ = 0;
  int ramp_ = 0;
};

}  // namespace rl::minatar

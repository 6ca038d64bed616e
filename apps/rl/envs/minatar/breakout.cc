#include "apps/rl/envs/minatar/breakout.h"

#include <algorithm>

namespace rl::minatar {

std::span<const Move> Breakout::minimal_moves() const {
  static constexpr Move kMinimal[] = {Move::kNone, Move::kLeft, Move::kRight};
  return kMinimal;
}

void Breakout::reset(Draws& draws) {
  const bool from_right = draws.choice(2) == 1;
  ball_ = last_ = {.y = 3, .x = from_right ? kEdge : 0};
  down_ = 1;
  right_ = from_right ? -1 : 1;
  paddle_ = 4;
  inside_bricks_ = false;
  bricks_.clear();
  bricks_.fill(1, 4, 0, kEdge + 1);
}

GameOutcome Breakout::step(Move move) {
  if (move == Move::kLeft) paddle_ = std::max(0, paddle_ - 1);
  if (move == Move::kRight) paddle_ = std::min(kEdge, paddle_ + 1);

  last_ = ball_;
  // No ball of a game that goes on is at the bottom; one of a state may be.
  Cell next{.y = std::min(ball_.y + down_, kEdge), .x = ball_.x + right_};
  if (next.x < 0 || next.x > kEdge) {
    next.x = std::clamp(next.x, 0, kEdge);
    right_ = -right_;
  }
  GameOutcome outcome{.reward = 0, .terminal = false};
  bool meets_brick = false;
  if (next.y < 0) {
    next.y = 0;
    down_ = -down_;
  } else if (bricks_.at(next.y, next.x)) {
    meets_brick = true;
    outcome.reward = hit_brick(next) ? 1 : 0;
  } else if (next.y == kEdge) {
    outcome.terminal = !reach_bottom(next);
  }
  if (!meets_brick) inside_bricks_ = false;
  ball_ = next;
  return outcome;
}

/// Whether it breaks.
bool Breakout::hit_brick(Cell& next) {
  if (inside_bricks_) return false;
  inside_bricks_ = true;
  bricks_.clear(next.y, next.x);
  next.y = last_.y;
  down_ = -down_;
  return true;
}

/// Whether the paddle is there. A ball straight above it goes back up along the same diagonal's mirror; one that comes
/// to it from the side goes back where it came from.
bool Breakout::reach_bottom(Cell& next) {
  if (bricks_.count() == 0) bricks_.fill(1, 4, 0, kEdge + 1);
  const bool above = ball_.x == paddle_;
  if (!above && next.x != paddle_) return false;
  down_ = -down_;
  if (!above) right_ = -right_;
  next.y = last_.y;
  return true;
}

void Breakout::observe(std::span<std::uint8_t> board) const {
  enum : std::size_t { kPaddle, kBall, kTrail, kBrick };
  Plane paddle, ball, trail;
  paddle.set(kEdge, paddle_);
  ball.set(ball_.y, ball_.x);
  trail.set(last_.y, last_.x);
  paddle.show(board, channels(), kPaddle);
  ball.show(board, channels(), kBall);
  trail.show(board, channels(), kTrail);
  bricks_.show(board, channels(), kBrick);
}

void Breakout::visit(StateVisitor& visitor) {
  visitor.one_within("ball_y", ball_.y, 0, kEdge), visitor.one_within("ball_x", ball_.x, 0, kEdge);
  visitor.one_within("last_y", last_.y, 0, kEdge), visitor.one_within("last_x", last_.x, 0, kEdge);
  visitor.one_within("down", down_, -1, 1), visitor.one_within("right", right_, -1, 1);
  visitor.one_within("paddle", paddle_, 0, kEdge);
  visitor.one("inside_bricks", inside_bricks_);
  bricks_.visit("bricks", visitor);
}

}  // namespace rl::minatar

#include "apps/rl/envs/minatar/space_invaders.h"

#include <algorithm>

namespace rl::minatar {
namespace {

constexpr int kShotCoolDown = 5;
constexpr int kEnemyMoveInterval = 12;
constexpr int kEnemyMoveIntervalMin = 6;
constexpr int kEnemyShotInterval = 10;

}  // namespace

std::span<const Move> SpaceInvaders::minimal_moves() const {
  static constexpr Move kMinimal[] = {Move::kNone, Move::kLeft, Move::kRight, Move::kFire};
  return kMinimal;
}

void SpaceInvaders::reset(Draws&) {
  cannon_ = 5;
  own_bullets_.clear(), enemy_bullets_.clear(), aliens_.clear();
  aliens_.fill(0, 4, 2, 8);
  direction_ = -1;
  move_interval_ = move_timer_ = kEnemyMoveInterval;
  enemy_shot_timer_ = kEnemyShotInterval;
  own_shot_timer_ = 0;
  ramp_ = 0;
}

// An end does not cut the step short: what is hit in it counts.
GameOutcome SpaceInvaders::step(Move move) {
  move_cannon(move);
  own_bullets_.roll_up();
  for (int x = 0; x <= kEdge; ++x) own_bullets_.clear(kEdge, x);
  enemy_bullets_.roll_down();
  for (int x = 0; x <= kEdge; ++x) enemy_bullets_.clear(0, x);
  bool terminal = enemy_bullets_.at(kEdge, cannon_) || aliens_.at(kEdge, cannon_);

  if (move_timer_ == 0) terminal = move_aliens() || terminal;
  if (enemy_shot_timer_ == 0) shoot_back();
  const Plane hit = aliens_.both(own_bullets_);
  aliens_.remove(hit), own_bullets_.remove(hit);

  own_shot_timer_ = std::max(0, own_shot_timer_ - 1);
  --move_timer_, --enemy_shot_timer_;
  if (aliens_.count() == 0) next_wave();
  return {.reward = hit.count(), .terminal = terminal};
}

void SpaceInvaders::move_cannon(Move move) {
  if (move == Move::kFire && own_shot_timer_ == 0) {
    own_bullets_.set(kEdge, cannon_);
    own_shot_timer_ = kShotCoolDown;
  }
  if (move == Move::kLeft) cannon_ = std::max(0, cannon_ - 1);
  if (move == Move::kRight) cannon_ = std::min(kEdge, cannon_ + 1);
}

/// Whether that ends the game.
bool SpaceInvaders::move_aliens() {
  move_timer_ = std::min(aliens_.count(), move_interval_);
  bool at_bottom = false;
  if (aliens_.any_in_column(direction_ < 0 ? 0 : kEdge)) {
    direction_ = -direction_;
    at_bottom = aliens_.any_in_row(kEdge);
    aliens_.roll_down();
  } else {
    aliens_.shift(direction_);
  }
  return at_bottom || aliens_.at(kEdge, cannon_);
}

/// The lowest alien of the column that is nearest to the cannon shoots; of two as near, the left one.
void SpaceInvaders::shoot_back() {
  enemy_shot_timer_ = kEnemyShotInterval;
  for (int distance = 0; distance <= kEdge; ++distance) {
    for (int x : {cannon_ - distance, cannon_ + distance}) {
      if (x < 0 || x > kEdge || !aliens_.any_in_column(x)) continue;
      enemy_bullets_.set(aliens_.lowest_in_column(x), x);
      return;
    }
  }
}

void SpaceInvaders::next_wave() {
  if (difficulty_ramping_ && move_interval_ > kEnemyMoveIntervalMin) {
    --move_interval_;
    ++ramp_;
  }
  aliens_.fill(0, 4, 2, 8);
}

void SpaceInvaders::observe(std::span<std::uint8_t> board) const {
  enum : std::size_t { kCannon, kAlien, kAlienLeft, kAlienRight, kOwnBullet, kEnemyBullet };
  Plane cannon;
  cannon.set(kEdge, cannon_);
  cannon.show(board, channels(), kCannon);
  aliens_.show(board, channels(), kAlien);
  (direction_ < 0 ? aliens_ : Plane()).show(board, channels(), kAlienLeft);
  (direction_ < 0 ? Plane() : aliens_).show(board, channels(), kAlienRight);
  own_bullets_.show(board, channels(), kOwnBullet);
  enemy_bullets_.show(board, channels(), kEnemyBullet);
}

void SpaceInvaders::visit(StateVisitor& visitor) {
  visitor.one_within("cannon", cannon_, 0, kEdge), visitor.one_within("direction", direction_, -1, 1);
  visitor.one_within("ramp", ramp_, 0, kEnemyMoveInterval);
  own_bullets_.visit("own_bullets", visitor), enemy_bullets_.visit("enemy_bullets", visitor);
  aliens_.visit("aliens", visitor);
  visitor.one_within("move_interval", move_interval_, 0, kEnemyMoveInterval);
  visitor.one_within("move_timer", move_timer_, 0, kEnemyMoveInterval);
  visitor.one_within("enemy_shot_timer", enemy_shot_timer_, 0, kEnemyShotInterval);
  visitor.one_within("own_shot_timer", own_shot_timer_, 0, kShotCoolDown);
}

}  // namespace rl::minatar

// The games of MinAtar (Young and Tian 2019): Atari games on a board of ten by ten cells, by the rules of the package
// `minatar` 1.0.15, and what the package has around each: sticky actions.
//
// A game is used by one thread at a time. Its random numbers come from outside: a recorded game can be replayed.
//
//   MAT-1  Board, reward, end and draws are the package's at every step, if the draws are.
//   MAT-2  The package draws, in this order: one uniform number a step (is the action before this one taken again?),
//          and what a game's reset asks for.
//   MAT-3  The action before is remembered over the end of an episode, as the package does; a new stream forgets it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/state/state_visitor.h"

namespace rl::minatar {

inline constexpr std::size_t kBoard = 10;
inline constexpr int kEdge = static_cast<int>(kBoard) - 1;

enum class Move : std::uint8_t { kNone, kLeft, kUp, kRight, kDown, kFire };  // the package's numbers
inline constexpr std::int64_t kMoves = 6;

/// Where the games draw from.
class Draws {
 public:
  virtual ~Draws() = default;
  virtual double uniform() = 0;           // in [0, 1)
  virtual int choice(int choices) = 0;    // in [0, choices)
};

/// The library's streams.
class GeneratorDraws final : public Draws {
 public:
  explicit GeneratorDraws(std::uint64_t seed) : generator_(seed) {}
  double uniform() override { return generator_.random(); }
  int choice(int choices) override {
    return static_cast<int>(generator_.integers(static_cast<std::uint32_t>(choices)));
  }
  void visit(StateVisitor& visitor) { visitor.generator("generator", generator_); }

 private:
  Generator generator_;
};

/// Whether there is a thing of one kind, cell by cell.
class Plane {
 public:
  [[nodiscard]] bool at(int y, int x) const { return (rows_[index(y)] >> x & 1u) != 0; }
  void set(int y, int x) { rows_[index(y)] |= static_cast<std::uint16_t>(1u << x); }
  void clear(int y, int x) { rows_[index(y)] &= static_cast<std::uint16_t>(~(1u << x)); }
  /// Rows [y0, y1) of columns [x0, x1).
  void fill(int y0, int y1, int x0, int x1);
  void clear() { rows_ = {}; }

  [[nodiscard]] int count() const;
  [[nodiscard]] bool any_in_row(int y) const { return rows_[index(y)] != 0; }
  [[nodiscard]] bool any_in_column(int x) const { return lowest_in_column(x) >= 0; }
  /// The greatest y; -1: there is none.
  [[nodiscard]] int lowest_in_column(int x) const;

  /// All things one row further; what leaves the board comes in on the other side.
  void roll_down();
  void roll_up();
  /// All things one column further; none of them leaves the board.
  void shift(int columns);

  [[nodiscard]] Plane both(const Plane& other) const;
  void remove(const Plane& other);

  /// Into one channel of a board of [y][x][channels].
  void show(std::span<std::uint8_t> board, std::size_t channels, std::size_t channel) const;
  void visit(const std::string& name, StateVisitor& visitor) {
    visitor.numbers_within<std::uint16_t>(name, rows_, 0, (1u << kBoard) - 1);
  }

 private:
  static std::size_t index(int y) { return static_cast<std::size_t>(y); }
  std::array<std::uint16_t, kBoard> rows_{};  // bit x of row y
};

struct GameOutcome {
  int reward;
  bool terminal;
};

class Game {
 public:
  virtual ~Game() = default;
  [[nodiscard]] virtual std::size_t channels() const = 0;
  /// The moves that do something in this game.
  [[nodiscard]] virtual std::span<const Move> minimal_moves() const = 0;
  virtual void reset(Draws& draws) = 0;
  /// Not after the end.
  virtual GameOutcome step(Move move) = 0;
  /// [y][x][channels()], 0 or 1.
  virtual void observe(std::span<std::uint8_t> board) const = 0;
  /// How often the game has become harder in this episode.
  [[nodiscard]] virtual int ramp() const { return 0; }
  /// All that changes in it.
  virtual void visit(StateVisitor& visitor) = 0;
};

struct GameOptions {
  double sticky_action_prob = 0.1;
  bool difficulty_ramping = true;  // of games that have it
};

/// A game with sticky actions.
class StickyGame {
 public:
  StickyGame(std::unique_ptr<Game> game, double sticky_action_prob)
      : game_(std::move(game)), sticky_action_prob_(sticky_action_prob) {}

  void forget() { last_ = Move::kNone; }  // MAT-3
  void reset(Draws& draws) { game_->reset(draws); }
  GameOutcome step(Move move, Draws& draws) {
    if (!(draws.uniform() < sticky_action_prob_)) last_ = move;
    return game_->step(last_);
  }
  [[nodiscard]] const Game& game() const { return *game_; }
  void visit(StateVisitor& visitor) {
    visitor.one("last", last_);
    game_->visit(visitor);
  }

 private:
  std::unique_ptr<Game> game_;
  double sticky_action_prob_;
  Move last_ = Move::kNone;
};

}  // namespace rl::minatar

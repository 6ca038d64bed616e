// MinAtarVectorEnv: games of MinAtar as a batch.
//
//   MinAtar/Breakout-v1, MinAtar/SpaceInvaders-v1   the moves that do something in the game
//   MinAtar/Breakout-v0, MinAtar/SpaceInvaders-v0   all six moves
//
// Observations are Box(bool, [10, 10, channels]); there is no time limit unless one is asked for. Arguments, by the
// package's names: sticky_action_prob (0.1), difficulty_ramping (true).
//
// One thread at a time. Promises: BE-1 to BE-6 of batch_env.h; MAT-1 to MAT-3 of game.h, with the library's streams.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rl/envs/env_registry.h"
#include "apps/rl/envs/minatar/game.h"
#include "apps/rl/envs/slots_vector_env.h"

namespace rl {

namespace detail {

class MinAtarSlot {
 public:
  /// `moves` outlives it.
  MinAtarSlot(minatar::StickyGame game, std::span<const minatar::Move> moves, std::string_view id)
      : game_(std::move(game)), moves_(moves), id_(id) {}
  void seed(std::uint64_t seed) {
    draws_ = minatar::GeneratorDraws(seed);
    game_.forget();
  }
  void begin() { game_.reset(draws_); }
  void check(ConstRows actions, std::size_t row) const;
  StepOutcome step(ConstRows actions, std::size_t row);
  void observe(Rows row) const;
  void visit(StateVisitor& visitor) { game_.visit(visitor), draws_.visit(visitor); }

 private:
  minatar::StickyGame game_;
  std::span<const minatar::Move> moves_;
  std::string_view id_;
  minatar::GeneratorDraws draws_{0};
};

}  // namespace detail

class MinAtarVectorEnv final : public SlotsVectorEnv<detail::MinAtarSlot> {
 public:
  /// InvalidArgumentError: another id, an argument that there is not or that makes no sense.
  static troupe::Result<std::unique_ptr<MinAtarVectorEnv>> make(std::string_view id, const BatchEnvOptions& options);

 private:
  using SlotsVectorEnv::SlotsVectorEnv;
};

/// The names that MinAtarVectorEnv::make knows.
[[nodiscard]] std::vector<std::string_view> minatar_env_ids();

}  // namespace rl

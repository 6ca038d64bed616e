// Noise for exploration that stays with its direction for a while, where a policy's own is white: a car that has to
// swing gets nowhere by pushes that cancel out.
//
//   OrnsteinUhlenbeck   x += theta (0 - x) dt + sigma sqrt(dt) N(0, 1), from 0 (Uhlenbeck and Ornstein, 1930): added to
//                       actions in [-1, 1], as DDPG does (Lillicrap et al., 2016)
//   ColoredNoise        Gaussian with a power spectrum of 1 / f^beta and variance 1 (Timmer and Koenig, 1995): in place
//                       of a policy's own draws (Eberhard et al., "Pink Noise Is All You Need", 2023). beta 0 is white,
//                       1 pink, 2 red
//   HeldNoise           white, but each draw is held for some steps: the matrix of state-dependent exploration
//                       (networks/gsde_network.h)
//
// A row of numbers an environment; each environment has its own stream, begun anew with each of its episodes. Plain
// classes; one thread at a time.
//
// ANO-1  Same generator, same calls, same numbers.
// ANO-2  Colored noise comes in sequences of `period` numbers, a power of two; an episode that is longer begins another
//        one.
// ANO-3  Held noise is drawn anew after `interval` steps of its environment, and with each of its episodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/state/state_visitor.h"

namespace rl {

class ActionNoise {
 public:
  virtual ~ActionNoise() = default;
  /// [num_envs][dimensions], valid until the next call.
  virtual std::span<const double> next(Generator& generator) = 0;
  /// An episode of it has ended.
  virtual void reset(std::size_t env) = 0;
  virtual void visit(StateVisitor& visitor) = 0;
};

struct OrnsteinUhlenbeckOptions {
  std::size_t num_envs = 1, dimensions = 1;
  double sigma = 0.5;
  double theta = 0.15, dt = 0.01;  // Stable-Baselines3's
};
[[nodiscard]] std::unique_ptr<ActionNoise> make_ornstein_uhlenbeck(const OrnsteinUhlenbeckOptions& options);

struct ColoredNoiseOptions {
  std::size_t num_envs = 1, dimensions = 1;
  double beta = 1;
  std::size_t period = 1024;
};
/// InvalidArgumentError, thrown, for a period that is no power of two, or below 2.
[[nodiscard]] std::unique_ptr<ActionNoise> make_colored_noise(const ColoredNoiseOptions& options);

struct HeldNoiseOptions {
  std::size_t num_envs = 1, dimensions = 1;
  std::uint64_t interval = 64;  // 0: whole episodes
};
[[nodiscard]] std::unique_ptr<ActionNoise> make_held_noise(const HeldNoiseOptions& options);

/// One sequence; its size as of ANO-2.
void colored_noise(double beta, Generator& generator, std::span<double> out);

}  // namespace rl

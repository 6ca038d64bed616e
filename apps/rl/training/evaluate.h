// Plays a policy without exploration: the most likely action, on environments seeded one after the other. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/training/checkpoint.h"

namespace rl {

struct EvaluateOptions {
  std::size_t episodes = 20;
  std::uint64_t seed = 10'000;  // episode i starts from seed + i
};

struct Evaluation {
  std::vector<double> returns;
  double mean = 0;
  double deviation = 0;  // population
};

/// Of the returns without the lowest and the highest quarter of them (statistics.h). There is at least one.
[[nodiscard]] double interquartile_mean(const Evaluation& evaluation);

/// InvalidArgumentError when the policy's network does not fit its environment. RuntimeEnvError is thrown: an
/// environment breaks off every episode.
[[nodiscard]] troupe::Result<Evaluation> evaluate(const Policy& policy, const EvaluateOptions& options);

}  // namespace rl

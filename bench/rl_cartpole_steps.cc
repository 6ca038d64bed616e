// Environment steps of CartPole on one core: a vector of 1,024 environments, random actions; resets, observations,
// flags and the drawing of the actions included.
#include "apps/rl/envs/cartpole_batch.h"
#include "bench/harness.h"
#include "kernels/cpu/isa/isa.h"

namespace troupe::bench {
namespace {

void measure(Harness& harness) {
  const kernels::Isa isa = kernels::best_isa();
  (void)rl::measure_cartpole_steps_per_second(1024, harness.choose(1.0, 0.1), isa);  // the clock of the core rises
  Samples trials;
  for (int trial = 0; trial < 4; ++trial)
    trials.add(rl::measure_cartpole_steps_per_second(1024, harness.choose(2.0, 0.2), isa));
  harness.report({.row = "rl/cartpole_steps", .value = trials.mean(), .spread = trials.deviation()});
}

}  // namespace

const Program program{.rows = {"rl/cartpole_steps"}, .measure = &measure, .runtime = false};

}  // namespace troupe::bench

// V-trace targets and advantages (IMPALA, 2018, equation 1), by the backward recursion. Pure; arrays are [T][N],
// row-major. The work is done by kernels/cpu/scans/scans.h, on the fastest instruction set.
//
// VT-1  discount is gamma, or 0 where the episode ends.
// VT-2  The policy-gradient advantage uses vs of the next step, not its value.
#pragma once

#include <cstddef>
#include <span>

namespace rl {

struct VtraceOptions {
  double rho_bar = 1;
  double c_bar = 1;
  double pg_rho_bar = 1;
  double lambda = 1;
};

template <class T>
struct VtraceInput {
  std::size_t steps = 0;
  std::size_t envs = 0;
  std::span<const T> behaviour_log_prob, target_log_prob, discount, reward, value;  // [T][N]
  std::span<const T> bootstrap_value;                                               // [N]
};

template <class T>
void vtrace(const VtraceInput<T>& in, const VtraceOptions& options, std::span<T> vs, std::span<T> pg_advantage);

}  // namespace rl

// The backward recursions of reinforcement learning over a rollout of T steps in N environments: generalized advantage
// estimation and V-trace (IMPALA, 2018, equation 1).
//
// Pure; any thread; arrays are [T][N], row-major. The recursion runs over T, the environments of one step side by side
// in registers: N should be a multiple of 16 for speed, any N is right. double always runs the reference.
//
// SCN-1  GAE: a step that ended an episode bootstraps from final_value (the value of the true last observation), and
//        not at all when it terminated: termination wins when both flags are set. The last row bootstraps from
//        last_value.
// SCN-2  V-trace: discount is gamma, or 0 where the episode ends; the policy-gradient advantage uses vs of the next
//        step.
// SCN-3  Outputs may not overlap inputs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

struct ScanShape {
  std::size_t steps = 0, envs = 0;
};

template <class T>
struct GaeArrays {
  const T *reward = nullptr, *value = nullptr, *final_value = nullptr;          // [T][N]
  const std::uint8_t *terminated = nullptr, *truncated = nullptr;               // [T][N]
  const T* last_value = nullptr;                                                // [N]
  T *advantage = nullptr, *returns = nullptr;                                   // [T][N], written
};
struct GaeFactors {
  double gamma = 0.99, lambda = 0.95;
};
template <class T>
void gae_scan(Isa isa, const ScanShape& shape, const GaeArrays<T>& arrays, const GaeFactors& factors);

template <class T>
struct VtraceArrays {
  const T *behaviour_log_prob = nullptr, *target_log_prob = nullptr;  // [T][N]
  const T *discount = nullptr, *reward = nullptr, *value = nullptr;   // [T][N]
  const T* bootstrap_value = nullptr;                                 // [N]
  T *vs = nullptr, *pg_advantage = nullptr;                           // [T][N], written
};
struct VtraceFactors {
  double rho_bar = 1, c_bar = 1, pg_rho_bar = 1, lambda = 1;
};
template <class T>
void vtrace_scan(Isa isa, const ScanShape& shape, const VtraceArrays<T>& arrays, const VtraceFactors& factors);

namespace detail {

struct ScansVersion {
  void (*gae)(const ScanShape&, const GaeArrays<float>&, const GaeFactors&);
  void (*vtrace)(const ScanShape&, const VtraceArrays<float>&, const VtraceFactors&);
};
const ScansVersion* scans_avx2();  // null where it was not built
const ScansVersion* scans_avx512();

}  // namespace detail
}  // namespace troupe::kernels

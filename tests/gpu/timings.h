// The kernel table: time, rate and share of a ceiling measured in the same run.
#pragma once

#include <string>
#include <vector>

#include "tests/gpu/device.h"

namespace gpu_test {

struct Timing {
  std::string kernel;
  int version;
  double microseconds;
  double rate;          // GB/s or GFLOP/s
  const char* unit;
  double share;         // of the ceiling
};

struct Ceilings {
  double copy_gb_per_second = 0;          // bytes read plus bytes written
  double bf16_gflop_per_second = 0;       // cuBLASLt, or our own products where there is none
  double float_gflop_per_second = 0;
};

/// large: sizes that fill a chip; otherwise just enough to see that it runs.
Ceilings measure_ceilings(const Gpu& gpu, bool large);
std::vector<Timing> time_kernels(const Gpu& gpu, const Ceilings& ceilings, bool large);

}  // namespace gpu_test

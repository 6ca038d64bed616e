// What the kernels of the classic-control tasks work on: arrays with one number an environment, in groups of eight.
//
// Kept free of everything else, as constants.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rl::detail {

inline constexpr std::size_t kClassicGroup = 8;
inline constexpr std::size_t kClassicStateMax = 4;

/// One call steps 8 * groups environments.
struct ClassicLanes {
  std::size_t groups;
  double* state[kClassicStateMax];  // an array a field
  double* episode_return;
  std::int32_t* steps;              // of the episode; 0: it has just begun
  std::int32_t max_steps;
  const std::int64_t* choices;      // the actions: of discrete tasks
  const float* forces;              // of continuous ones
  float* obs;                       // rows
  double* reward;
  std::uint8_t *terminated, *truncated;
  std::uint8_t* ended_masks;        // a byte a group; bit k: its k-th ended
};

/// What is needed to show them.
struct ClassicView {
  std::size_t groups;
  const double* state[kClassicStateMax];
  float* obs;
};

/// `step` takes any numbers as actions: those of environments that begin anew are ignored later. `observe` shows them
/// as `step` did, if their last step was not a reset.
struct ClassicKernel {
  void (*step)(const ClassicLanes& lanes);
  void (*observe)(const ClassicView& view);
};

/// One instruction set.
struct ClassicKernels {
  ClassicKernel cartpole, mountain_car, mountain_car_continuous, pendulum, acrobot;
  /// All of `count` numbers are in [0, bound).
  bool (*all_below)(const std::int64_t* numbers, std::size_t count, std::int64_t bound);
  /// What the kernels take for sine and cosine; a group of numbers.
  void (*sin_cos)(const double* x, double* sin, double* cos);
};
const ClassicKernels& classic_kernels_reference();
const ClassicKernels* classic_kernels_avx2();  // null where it was not built
const ClassicKernels* classic_kernels_avx512();

}  // namespace rl::detail

// Schedule: the learning rate of every step, as a pure function.
//
//   rate
//    |        ____ kConstant
//    |   /\___     kCosine: falls to `minimum` at `decay_steps`
//    |  /  |__     kSteps: multiplied by `factor` at each milestone
//    | /      |__
//    +------------ step
//      warm-up
//
// Invariants
//   TSD-1  Linear scaling (Goyal et al.): a batch k times the reference batch has k times its rate; all else stays.
//   TSD-2  kGradual warm-up begins at the unscaled rate and adds the same amount at every step: rate(0) = base,
//          rate(warmup_steps) = scaled. kFromZero gives scaled * (step + 1) / (warmup_steps + 1).
//   TSD-3  Nothing depends on the number of ranks, only on the global batch: a change of ranks changes no rate.
// Thread rule: pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

namespace troupe::train {

enum class WarmUp : std::uint8_t { kFromZero, kGradual };
enum class Decay : std::uint8_t { kConstant, kCosine, kSteps };

struct ScheduleOptions {
  double base_rate = 1e-3;
  double batch = 0, reference_batch = 0;  ///< both above 0: the rate is base_rate * batch / reference_batch
  WarmUp warm_up = WarmUp::kFromZero;
  std::int64_t warmup_steps = 0;
  Decay decay = Decay::kConstant;
  double minimum = 0;                         ///< kCosine: at and after decay_steps
  std::int64_t decay_steps = 0;               ///< kCosine: counted from step 0, warm-up included
  std::vector<std::int64_t> milestones = {};  ///< kSteps: rising
  double factor = 0.1;                        ///< kSteps
};

/// InvalidArgumentError that says what cannot be.
Status check(const ScheduleOptions& options);
/// What the warm-up leads to.
double scaled_rate(const ScheduleOptions& options);
/// The rate of the update that makes step `step` (from 0) into the next one.
double learning_rate(const ScheduleOptions& options, std::int64_t step);
/// One line that differs when the schedule does: checkpoints carry it.
std::string describe(const ScheduleOptions& options);
/// Of such a description: the step at which its cosine ends; none where it has no cosine.
std::optional<std::int64_t> cosine_end(std::string_view description);

}  // namespace troupe::train

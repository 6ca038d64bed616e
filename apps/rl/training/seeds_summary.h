// What several seeds of one configuration have come to, from the results of their runs (result_json.h). Pure.
//
// SSM-1  Numbers over seeds are of those that ended by themselves; one that failed or was interrupted is counted and
//        named, and enters no mean.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/training/seed_curves.h"
#include "apps/rl/training/statistics.h"

namespace rl {

struct SeedOutcome {
  std::uint64_t seed = 0;
  int exit_code = 0;  // of its run: 0 solved, 3 not, 130 interrupted, others failed
  std::int64_t steps = 0;
  std::optional<std::int64_t> solved_steps = {};  // when the mean return of 100 episodes first was high enough
  std::optional<double> mean_return = {};         // of the last 100 episodes; none: it had no episode of its own
  std::optional<double> last_copy = {};           // final return without exploration; none: no copy was played
  std::string gate = {};                          // "passed", "failed", "open", "again"; empty: there is none
  double seconds = 0;
  std::vector<CurvePoint> curve = {};             // of training; where it played no episode, of its copies
  bool curve_of_copies = false;

  [[nodiscard]] bool ended() const { return exit_code == 0 || exit_code == 3; }
};

/// SerializationError for a text that no run has written.
[[nodiscard]] troupe::Result<SeedOutcome> seed_outcome(std::uint64_t seed, int exit_code, const std::string& result);

struct OverSeeds {
  double mean = 0;
  Estimate interquartile_mean = {};
};
struct SeedsSummary {
  std::size_t ended = 0, solved = 0, gates_passed = 0, failed = 0, interrupted = 0;
  std::optional<OverSeeds> mean_return = {}, last_copy = {};  // none: of none
};
[[nodiscard]] SeedsSummary summarize(const std::vector<SeedOutcome>& seeds);

/// A line a seed, and what is true of all.
[[nodiscard]] std::string summary_text(const std::vector<SeedOutcome>& seeds);
/// Keys: seeds ([{seed, exit_code, steps, solved_steps, mean_return, last_copy, gate, seconds}, ...]), ended, solved,
/// gates_passed, failed, interrupted, and mean_return and last_copy: {mean, interquartile_mean, low, high} or null.
[[nodiscard]] boost::json::object summary_json(const std::vector<SeedOutcome>& seeds);

}  // namespace rl

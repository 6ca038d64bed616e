// RST-1 against what rliable gave for the same draws.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/training/statistics.h"
#include "tests/rl/golden.h"

namespace {

using namespace rl;

// Sums in another order than NumPy's.
constexpr double kRounding = 1e-12;

void near(double got, const golden::json::value& recorded, const char* key) {
  const double want = golden::number(golden::at(recorded, key));
  EXPECT_NEAR(got, want, kRounding * std::max(1.0, std::abs(want))) << key;
}

TEST(GoldenStatistics, RST1_AggregatesAndIntervalsAreRliables) {
  const auto files = golden::files_of(golden::Kind::kStatistics);
  if (files.empty() && !golden::is_default_folder()) GTEST_SKIP() << "none recorded in the named folder";
  ASSERT_FALSE(files.empty());
  for (const golden::File* file : files) {
    for (const auto& one : file->content.at("cases").as_array()) {
      const ScoreMatrix scores{.runs = static_cast<std::size_t>(golden::integer(golden::at(one, "runs"))),
                               .tasks = static_cast<std::size_t>(golden::integer(golden::at(one, "tasks"))),
                               .values = golden::numbers(golden::at(one, "scores"))};
      std::vector<std::uint32_t> run_of;
      for (const double run : golden::numbers(golden::at(one, "run_of")))
        run_of.push_back(static_cast<std::uint32_t>(run));
      for (const auto& [what, key] : {std::pair{Aggregate::kMean, "mean"}, std::pair{Aggregate::kMedian, "median"},
                                      std::pair{Aggregate::kInterquartileMean, "iqm"}}) {
        SCOPED_TRACE(std::to_string(scores.runs) + " runs of " + std::to_string(scores.tasks) + " tasks, " + key);
        const Estimate got =
            estimate_from_draws(what, scores, run_of, golden::number(golden::at(one, "confidence"))).value();
        const auto& want = golden::at(one, key);
        near(got.value, want, "value");
        near(got.low, want, "low");
        near(got.high, want, "high");
      }
    }
  }
}

}  // namespace

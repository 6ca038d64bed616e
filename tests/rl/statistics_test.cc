// RST-2, RST-3, RSC-1, RSC-2, LC-1, LC-2 and the picture of several seeds. RST-1 is golden_statistics_test.cc.
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "apps/common/line_chart.h"
#include "apps/rl/training/chart.h"
#include "apps/rl/training/seed_curves.h"
#include "apps/rl/training/statistics.h"

namespace {

using namespace rl;

std::size_t count(const std::string& text, std::string_view what) {
  std::size_t found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
  return found;
}

template <class T>
void expect_invalid(const troupe::Result<T>& result) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), troupe::ErrorCode::kInvalidArgument);
}

TEST(Statistics, InterquartileMeanLeavesOutAQuarterAtEachEndRoundedDown) {
  const auto of = [](std::vector<double> values) {
    return aggregate(Aggregate::kInterquartileMean, {.runs = values.size(), .tasks = 1, .values = values});
  };
  EXPECT_EQ(of({7}), 7);
  EXPECT_EQ(of({1, 2, 9}), 4);
  EXPECT_EQ(of({100, 3, -50, 4}), 3.5);
  EXPECT_EQ(of({100, 3, 5, -50, 4}), 4);
  EXPECT_EQ(of({1, 2, 3, 4, 5, 6, 7, 80}), 4.5);
}

TEST(Statistics, RST2_SameSeedSameIntervalAndAnotherSeedAnotherOne) {
  const ScoreMatrix scores{.runs = 5, .tasks = 2, .values = {1, 20, 2, 24, 4, 21, 8, 29, 16, 22}};
  const auto of = [&](std::uint64_t seed) {
    return estimate(Aggregate::kMean, scores, {.repetitions = 500, .seed = seed}).value();
  };
  EXPECT_EQ(of(1).low, of(1).low);
  EXPECT_EQ(of(1).high, of(1).high);
  EXPECT_NE(of(1).low, of(2).low);
  EXPECT_LT(of(1).low, of(1).value);
  EXPECT_GT(of(1).high, of(1).value);
  const Estimate narrow =
      estimate(Aggregate::kMean, scores, {.repetitions = 500, .confidence = 0.5, .seed = 1}).value();
  EXPECT_GT(narrow.low, of(1).low);
  EXPECT_LT(narrow.high, of(1).high);
}

TEST(Statistics, TasksAreStrata) {
  // Within each task all runs agree, so no draw changes anything: the tasks are never mixed.
  const ScoreMatrix scores{.runs = 3, .tasks = 2, .values = {1, 100, 1, 100, 1, 100}};
  const Estimate got = estimate(Aggregate::kMean, scores, {.repetitions = 200}).value();
  EXPECT_EQ(got.low, 50.5);
  EXPECT_EQ(got.high, 50.5);
}

TEST(Statistics, RST3_WhatMakesNoSenseIsRefused) {
  const ScoreMatrix good{.runs = 2, .tasks = 1, .values = {1, 2}};
  expect_invalid(estimate(Aggregate::kMean, {}, {}));
  expect_invalid(estimate(Aggregate::kMean, {.runs = 2, .tasks = 2, .values = {1, 2, 3}}, {}));
  expect_invalid(estimate(Aggregate::kMean, {.runs = 2, .tasks = 1, .values = {1, std::nan("")}}, {}));
  expect_invalid(estimate(Aggregate::kMean, good, {.repetitions = 0}));
  for (const double confidence : {0.0, 1.0, -1.0, 95.0, std::nan("")}) {
    expect_invalid(estimate(Aggregate::kMean, good, {.repetitions = 10, .confidence = confidence}));
    expect_invalid(estimate_from_draws(Aggregate::kMean, good, std::vector<std::uint32_t>{0, 1}, confidence));
  }
  expect_invalid(estimate_from_draws(Aggregate::kMean, good, {}, 0.9));
  expect_invalid(estimate_from_draws(Aggregate::kMean, good, std::vector<std::uint32_t>{0, 1, 0}, 0.9));
  expect_invalid(estimate_from_draws(Aggregate::kMean, good, std::vector<std::uint32_t>{0, 2}, 0.9));
}

TEST(SeedCurves, RSC1_OnlyStepsThatAllSeedsHaveSeenByInterpolation) {
  const std::vector<SeedCurve> curves{{.seed = 1, .points = {{0, 0.0f}, {100, 10.0f}, {400, 40.0f}}},
                                      {.seed = 2, .points = {{50, 5.0f}, {300, 80.0f}}}};
  const auto across = across_seeds(curves, {.points = 6}).value();
  ASSERT_EQ(across.size(), 6u);
  EXPECT_EQ(across.front().steps, 50);
  EXPECT_EQ(across.back().steps, 300);
  for (const CurveEstimate& at : across) {
    const double first = static_cast<double>(at.steps) / 10, second = 5 + (static_cast<double>(at.steps) - 50) * 0.3;
    EXPECT_NEAR(at.mean, (first + second) / 2, 1e-9) << at.steps;
  }
  const std::vector<SeedCurve> apart{{.points = {{0, 0.0f}, {10, 1.0f}}}, {.points = {{20, 0.0f}, {30, 1.0f}}}};
  EXPECT_TRUE(across_seeds(apart, {}).value().empty());
  EXPECT_TRUE(across_seeds({}, {}).value().empty());
  EXPECT_TRUE(across_seeds(std::vector<SeedCurve>{{.points = {{1, 1.0f}}}, {}}, {}).value().empty());
  // Fewer whole steps than points asked for: each once.
  const std::vector<SeedCurve> brief{{.points = {{4, 1.0f}, {6, 2.0f}}}};
  EXPECT_EQ(across_seeds(brief, {.points = 50}).value().size(), 3u);
}

TEST(SeedCurves, RSC2_TheIntervalIsThatOfOneTaskWithARunForEachSeed) {
  std::vector<SeedCurve> curves;
  ScoreMatrix scores{.runs = 5, .tasks = 1};
  for (const float value : {3.0f, 9.0f, 4.0f, 7.0f, 30.0f}) {
    curves.push_back({.seed = curves.size(), .points = {{0, 0.0f}, {10, value}}});
    scores.values.push_back(static_cast<double>(value));
  }
  const AcrossSeedsOptions options{.points = 2, .bootstrap = {.repetitions = 300, .seed = 4}};
  const auto across = across_seeds(curves, options).value();
  ASSERT_EQ(across.size(), 2u);
  const Estimate want = estimate(Aggregate::kInterquartileMean, scores, options.bootstrap).value();
  EXPECT_EQ(across[1].interquartile_mean.value, want.value);
  EXPECT_EQ(across[1].interquartile_mean.low, want.low);
  EXPECT_EQ(across[1].interquartile_mean.high, want.high);
  EXPECT_EQ(across[0].interquartile_mean.high, 0);
}

TEST(SeedCurves, CurvesThatGoBackOrAreNotFiniteAreRefused) {
  expect_invalid(across_seeds(std::vector<SeedCurve>{{.points = {{5, 1.0f}, {5, 2.0f}}}}, {}));
  expect_invalid(across_seeds(std::vector<SeedCurve>{{.points = {{5, std::numeric_limits<float>::infinity()}}}}, {}));
}

TEST(LineChart, LC1_LC2_BandsAndTheLegend) {
  const double nan = std::nan("");
  apps::LineChartOptions options{.title = "t"};
  options.bands = {{.name = "the <band>", .edges = {{0, 1, 2}, {5, nan, 2}, {10, 2, 4}}}};
  const std::vector<apps::Series> series{{.name = "the curve", .points = {{0, 1}, {nan, 3}, {10, 3}}, .dashes = "5 3"}};
  const std::string svg = apps::line_chart_svg(options, series);
  EXPECT_EQ(count(svg, "<polygon"), 1u);
  EXPECT_EQ(count(svg, "<polyline"), 1u);
  EXPECT_LT(svg.find("<polygon"), svg.find("<polyline")) << "a band lies below";
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::size_t corners_at = svg.find("points='", svg.find("<polygon")) + 8;
  const std::string corners = svg.substr(corners_at, svg.find('\'', corners_at) - corners_at);
  EXPECT_EQ(count(corners, ","), 4u) << "two edges, up and down: " << corners;
  EXPECT_EQ(count(svg, "the &lt;band&gt;"), 1u);
  EXPECT_EQ(count(svg, "the curve"), 1u);
  EXPECT_EQ(count(svg, "stroke-dasharray='5 3'"), 2u) << "the curve and its sample in the legend";
  // Nothing named: no legend, and the plot begins higher.
  const std::vector<apps::Series> nameless{{.points = {{0, 1}, {10, 3}}}};
  EXPECT_EQ(count(apps::line_chart_svg({}, nameless), "translate("), 1u);
  EXPECT_EQ(count(svg, "translate("), 3u) << "the label of y, and two entries";
}

TEST(SeedsChart, EachSeedTheMeanTheInterquartileMeanAndItsInterval) {
  std::vector<SeedCurve> curves;
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    curves.push_back({.seed = seed, .points = {{0, 10.0f}, {1000, 100.0f + static_cast<float>(seed)}}});
  const std::string svg = seeds_svg(curves, {.title = "five", .threshold = 475.0}).value();
  EXPECT_EQ(svg.substr(0, 5), "<svg ");
  EXPECT_EQ(count(svg, "<polyline"), 7u);
  EXPECT_EQ(count(svg, "<polygon"), 1u);
  for (const char* name : {">5 seeds<", ">mean<", ">interquartile mean<", ">95 % bootstrap interval<",
                           ">solved at 475<", ">five<", ">environment steps<"})
    EXPECT_EQ(count(svg, name), 1u) << name;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::string none = seeds_svg({}, {}).value();
  EXPECT_EQ(count(none, "<polygon"), 0u);
  EXPECT_EQ(none.find("nan"), std::string::npos);
  expect_invalid(seeds_svg(std::vector<SeedCurve>{{.points = {{5, 1.0f}, {4, 2.0f}}}}, {}));
}

}  // namespace

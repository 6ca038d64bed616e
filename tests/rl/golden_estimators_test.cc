// GAE-1, GAE-2 and VT-1, VT-2 against the recorded cases, in double and in float.
#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include "apps/rl/algorithms/gae.h"
#include "apps/rl/algorithms/vtrace.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;

template <class Body>
void for_each_case(golden::Kind kind, Body body) {
  const auto files = golden::files_of(kind);
  if (files.empty()) GTEST_SKIP() << "no recorded cases";
  for (const golden::File* file : files) {
    std::size_t index = 0;
    for (const value& c : file->content.at("cases").as_array()) {
      SCOPED_TRACE(file->path.string() + " case " + std::to_string(index++));
      body(c);
    }
  }
}

template <class T>
std::vector<T> column(const value& c, std::string_view key) {
  const std::vector<double> wide = golden::numbers(at(c, key));
  return {wide.begin(), wide.end()};
}

template <class T>
void expect_close(const std::vector<T>& got, const value& want, double tolerance) {
  const std::vector<double> numbers = golden::numbers(want);
  ASSERT_EQ(got.size(), numbers.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(got[i]), numbers[i], tolerance * std::max(1.0, std::abs(numbers[i]))) << i;
  }
}

template <class T>
void check_gae(const value& c, double tolerance) {
  const auto reward = column<T>(c, "reward"), v = column<T>(c, "value"), final_value = column<T>(c, "final_value");
  const auto last_value = column<T>(c, "last_value");
  const auto terminated = golden::flags(at(c, "terminated")), truncated = golden::flags(at(c, "truncated"));
  std::vector<T> advantage(reward.size()), returns(reward.size());
  const rl::GaeInput<T> in{.steps = static_cast<std::size_t>(golden::integer(at(c, "T"))),
                           .envs = static_cast<std::size_t>(golden::integer(at(c, "N"))),
                           .reward = reward,
                           .value = v,
                           .final_value = final_value,
                           .terminated = terminated,
                           .truncated = truncated,
                           .last_value = last_value};
  rl::generalized_advantages<T>(
      in, {.gamma = golden::number(at(c, "gamma")), .lambda = golden::number(at(c, "lambda"))}, advantage, returns);
  expect_close(advantage, at(c, "advantage"), tolerance);
  expect_close(returns, at(c, "return"), tolerance);
}

TEST(GoldenGae, Double) {
  for_each_case(golden::Kind::kGae, [](const value& c) { check_gae<double>(c, 1e-12); });
}
TEST(GoldenGae, Float) {
  for_each_case(golden::Kind::kGae, [](const value& c) { check_gae<float>(c, 1e-5); });
}

template <class T>
void check_vtrace(const value& c, double tolerance) {
  const auto behaviour = column<T>(c, "behaviour_log_prob"), target = column<T>(c, "target_log_prob");
  const auto discount = column<T>(c, "discount"), reward = column<T>(c, "reward"), v = column<T>(c, "value");
  const auto bootstrap = column<T>(c, "bootstrap_value");
  std::vector<T> vs(reward.size()), advantage(reward.size());
  const rl::VtraceInput<T> in{.steps = static_cast<std::size_t>(golden::integer(at(c, "T"))),
                              .envs = static_cast<std::size_t>(golden::integer(at(c, "N"))),
                              .behaviour_log_prob = behaviour,
                              .target_log_prob = target,
                              .discount = discount,
                              .reward = reward,
                              .value = v,
                              .bootstrap_value = bootstrap};
  rl::vtrace<T>(in,
                {.rho_bar = golden::number(at(c, "rho_bar")),
                 .c_bar = golden::number(at(c, "c_bar")),
                 .pg_rho_bar = golden::number(at(c, "pg_rho_bar")),
                 .lambda = golden::number(at(c, "lambda"))},
                vs, advantage);
  expect_close(vs, at(c, "vs"), tolerance);
  expect_close(advantage, at(c, "pg_advantage"), tolerance);
}

TEST(GoldenVtrace, Double) {
  for_each_case(golden::Kind::kVtrace, [](const value& c) { check_vtrace<double>(c, 1e-11); });
}
TEST(GoldenVtrace, Float) {
  for_each_case(golden::Kind::kVtrace, [](const value& c) { check_vtrace<float>(c, 2e-5); });
}

}  // namespace

// RCL-1, RCL-2, PG-1, and what the program writes: flags, progress, picture, result.
#include <algorithm>
#include <cstdio>
#include <string>

#include <gtest/gtest.h>
#include <boost/json.hpp>

#include "apps/common/progress.h"
#include "apps/rl/training/chart.h"
#include "apps/rl/program/command_line.h"
#include "apps/rl/training/progress.h"
#include "apps/rl/training/result_json.h"

namespace {

using namespace rl;

Command parse(std::vector<std::string> words) {
  words.insert(words.begin(), "ppo");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  Command command = parse_command_line(Program::kPpo, arguments);
  testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  return command;
}

TEST(CommandLine, TrainingFlags) {
  const auto train = std::get<TrainCommand>(
      parse({"--seed", "9", "--num-envs=32", "--num-workers", "3", "--steps", "1000", "--out", "there"}));
  EXPECT_EQ(train.config, (RunConfig{.seed = 9, .num_workers = 3, .num_envs = 32, .total_steps = 1000}));
  EXPECT_EQ(train.json, "there/result.json");
  EXPECT_EQ(train.checkpoint, "there/checkpoint.bin");
  EXPECT_EQ(std::get<TrainCommand>(parse({"--total-steps", "1000"})).config.total_steps, 1000);
  EXPECT_EQ(std::get<TrainCommand>(parse({})).config, RunConfig{});
}

TEST(CommandLine, RCL2_GivenSettingsGoOverThoseOfACheckpoint) {
  const auto train = std::get<TrainCommand>(parse({"--resume", "c.bin", "--num-workers", "5"}));
  EXPECT_EQ(train.over({.seed = 8, .num_workers = 2, .num_envs = 7}).value(),
            (RunConfig{.seed = 8, .num_workers = 5, .num_envs = 7}));
  const auto on_gpu = std::get<TrainCommand>(parse({"--resume", "c.bin", "--device", "cuda"}));
  EXPECT_EQ(on_gpu.over({}).value().device, "cuda");
  EXPECT_FALSE(on_gpu.over(defaults_of("ars").value()).ok()) << "RCF-1";
}

TEST(CommandLine, Evaluate) {
  const auto evaluate = std::get<EvaluateCommand>(parse({"evaluate", "p.bin", "--episodes", "3", "--seed", "4"}));
  EXPECT_EQ(evaluate.policy, "p.bin");
  EXPECT_EQ(evaluate.options.episodes, 3u);
  EXPECT_EQ(evaluate.options.seed, 4u);
}

TEST(CommandLine, RCL1_WrongUsageIsTwoAndHelpIsZero) {
  EXPECT_EQ(std::get<ExitNow>(parse({"--help"})).code, 0);
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{{"--frobnicate"},
                                                                                     {"--num-envs", "0"},
                                                                                     {"--num-workers", "-1"},
                                                                                     {"--steps", "many"},
                                                                                     {"--seed"},
                                                                                     {"evaluate"},
                                                                                     {"stray"},
                                                                                     {"--steps", "0"}}) {
    const Command command = parse(wrong);
    ASSERT_TRUE(std::holds_alternative<ExitNow>(command)) << wrong.front();
    EXPECT_EQ(std::get<ExitNow>(command).code, 2) << wrong.front();
  }
}

TEST(Progress, LineShowsStepsRateReturnAndTimeLeft) {
  const ProgressView view{
      .steps = 36'864, .total_steps = 500'000, .steps_this_run = 36'864, .seconds = 0.25, .mean_return = 212.42,
      .mean_length = 213, .metrics = {{"loss", 0.25}, {"kl", 0.0081}, {"entropy", 0.584}}};
  EXPECT_EQ(progress_line(view, 0),
            "36,864/500,000 steps  147k steps/s  return 212.4  length 213.0  loss 0.25  kl 0.0081  entropy 0.584  "
            "ETA 0:04");
  EXPECT_EQ(progress_line(view, 10).substr(0, 13), "[----------] ");
  EXPECT_NE(progress_line({.total_steps = 10}, 0).find("ETA -:--"), std::string::npos);
}

std::string shown(bool terminal) {
  std::FILE* file = std::tmpfile();
  {
    apps::ProgressReporter reporter(file, terminal);
    const auto line = [](int width) { return progress_line({.steps = 4, .total_steps = 40}, width); };
    for (int i = 0; i <= 40; ++i) reporter.update(0.1 * i + 0.001, line);
    reporter.update(4.2, line, true);
  }
  std::rewind(file);
  std::string text(100'000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Progress, PG1_PlainLinesElsewhereAndOneRedrawnLineOnATerminal) {
  const std::string plain = shown(false);
  EXPECT_EQ(plain.find('\r'), std::string::npos);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), '\n'), 4);  // at 0, 2 and 4 s, and the last
  const std::string terminal = shown(true);
  EXPECT_EQ(std::count(terminal.begin(), terminal.end(), '\n'), 1);
  EXPECT_GT(std::count(terminal.begin(), terminal.end(), '\r'), 10);
}

TrainingLog solved_log() {
  TrainingLog log{.threshold = 475};
  log.steps = 2000, log.curve = {{1000, 50.0f}, {2000, 480.0f}}, log.recent.assign(100, 480.0f);
  log.recent[0] = 0, log.recent_lengths.assign(100, 90), log.recent_lengths[0] = 190;
  log.solved_steps = 1990, log.solved_seconds = 0.5, log.seconds = 0.6;
  return log;
}

TEST(Chart, IsAnSvgWithCurveThresholdAndTitle) {
  const std::string svg = learning_curve_svg(solved_log(), "a < b & c");
  EXPECT_EQ(svg.substr(0, 5), "<svg ");
  EXPECT_NE(svg.find("<polyline"), std::string::npos);
  EXPECT_NE(svg.find("stroke-dasharray"), std::string::npos);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::string empty = learning_curve_svg({}, "");
  EXPECT_EQ(empty.find("<polyline"), std::string::npos);
  EXPECT_EQ(empty.find("nan"), std::string::npos);
}

TEST(ResultJson, HoldsTheSolvedTimeOrNull) {
  const auto solved = boost::json::parse(training_json({.log = solved_log(), .seconds_this_run = 0.5})).as_object();
  EXPECT_TRUE(solved.at("solved").as_bool());
  EXPECT_EQ(solved.at("solved_steps").as_int64(), 1990);
  EXPECT_DOUBLE_EQ(solved.at("solved_seconds").as_double(), 0.5);
  EXPECT_DOUBLE_EQ(solved.at("steps_per_second").to_number<double>(), 4000);
  EXPECT_EQ(solved.at("curve").as_array().size(), 2u);
  EXPECT_DOUBLE_EQ(solved.at("mean_return").to_number<double>(), 475.2);
  EXPECT_DOUBLE_EQ(solved.at("interquartile_mean_return").to_number<double>(), 480);
  EXPECT_DOUBLE_EQ(solved.at("mean_length").to_number<double>(), 91);
  const auto open = boost::json::parse(training_json({})).as_object();
  EXPECT_FALSE(open.at("solved").as_bool());
  EXPECT_TRUE(open.at("solved_seconds").is_null());
}

}  // namespace

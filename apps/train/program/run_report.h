// What a run tells: its progress while it goes, its picture and its result at the end. Fed with the news of one rank.
//
// Invariants
//   RP-1  The curve holds every step once: a step that was done again after a failure replaces what came from it on.
//   RP-2  Losses in the result are exact: two runs with equal bits give equal numbers.
// Thread rule: one thread. The caller brings the clock.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "apps/common/progress.h"
#include "apps/train/program/job.h"
#include "apps/train/program/notebook.h"

namespace troupe::train {

struct TrainingLog {
  std::vector<StepLine> steps = {};
  std::vector<EvaluationLine> evaluations = {};
  std::vector<Recovery> recoveries = {};
  std::vector<std::string> warnings = {};
  StepSeconds seconds = {};
  StepBytes bytes = {};
  std::int64_t timed_steps = 0;

  void add(const News& news);
  std::int64_t reached() const {
    return steps.empty() ? (recoveries.empty() ? 0 : recoveries.back().step) : steps.back().step;
  }
  std::int64_t began_at() const { return recoveries.empty() ? 0 : recoveries.front().step; }
};

/// What does not change during the run.
struct RunFacts {
  std::string program = {};
  JobSettings job = {};
  int ranks = 1;
  std::string unit = {};           ///< "tokens"
  double units_per_step = 0, flops_per_step = 0;
  std::size_t parameters = 0;
};

struct RunEnd {
  double seconds = 0;
  bool interrupted = false;
  std::string error = {}, sample = {};
  std::filesystem::path picture = {}, checkpoint = {};
};

RunFacts facts_of(const std::string& program, const JobSettings& settings, Job& job, int ranks);

/// "[###---] 480/2,000 steps  loss 2.31  validation 2.29  18k tokens/s  ETA 1:20"
std::string progress_line(const RunFacts& facts, const TrainingLog& log, double seconds, int bar_width);
std::string curve_svg(const RunFacts& facts, const TrainingLog& log);
std::string result_json(const RunFacts& facts, const TrainingLog& log, const RunEnd& end);

/// Progress on standard error, news of recoveries as lines of their own.
class RunReport {
 public:
  RunReport(RunFacts facts, bool terminal);
  void add(const News& news, double seconds);
  void note(const std::string& text) { progress_.note(text); }
  void end(double seconds);
  const TrainingLog& log() const { return log_; }
  const RunFacts& facts() const { return facts_; }

 private:
  RunFacts facts_;
  TrainingLog log_;
  apps::ProgressReporter progress_;
};

}  // namespace troupe::train

// Notebook: what a rank has to tell, kept until somebody asks; and what others ask of the rank.
//
// Every rank writes the same lines (a step's loss is that of the global batch), so that whoever is rank 0 after a
// failure has them too.
//
// Invariants
//   NB-1  take() gives each line once, in the order of their steps' happening; a step that is done again comes again.
//   NB-2  At most kLinesMax steps and kWarningsMax warnings are kept: a rank that nobody asks does not grow.
//   NB-3  A newcomer is announced for one epoch's group and no other. The announcement may come first: the driver forms
//         that group while a rank is still in a step of the one before.
// Thread rule: any thread.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "apps/train/elastic/elastic.h"
#include "apps/train/trainer/metrics.h"

namespace troupe::train {

struct StepLine {
  std::int64_t step = 0;
  double loss = 0, gradient_norm = 0, learning_rate = 0;
  double seconds = 0;  ///< since the end of the step before
};

struct EvaluationLine {
  std::int64_t step = 0;
  double loss = 0;
  double accuracy = -1;      ///< below 0: the model has none
  StepSeconds seconds = {};  ///< of a step since the last evaluation, averaged over steps and ranks
};

struct News {
  std::vector<StepLine> steps = {};
  std::vector<EvaluationLine> evaluations = {};
  std::vector<Recovery> recoveries = {};
  std::vector<std::string> warnings = {};
  StepSeconds seconds = {};       ///< of this rank, all its steps
  StepBytes bytes = {};           ///< of its last step
  std::int64_t timed_steps = 0;
  std::uint64_t parted_epoch = 0; ///< this epoch's group was left for newcomers; 0: none was
};

class Notebook {
 public:
  static constexpr std::size_t kLinesMax = std::size_t(1) << 20, kWarningsMax = 1000;

  void add(const StepMetrics& metrics);
  void add(const EvaluationLine& line);
  void add(const Recovery& recovery);
  void warn(const std::string& text);
  void part(std::uint64_t epoch);
  News take();

  void ask_to_stop() { stop_ = true; }
  bool asked_to_stop() const { return stop_; }
  void announce_newcomer(std::uint64_t epoch) { announced_epoch_ = epoch; }
  bool newcomer_announced(std::uint64_t epoch) const { return announced_epoch_ == epoch; }

 private:
  std::mutex mutex_;
  News news_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> announced_epoch_{0};  // 0: none
};

}  // namespace troupe::train

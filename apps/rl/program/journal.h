// What a run writes while it goes on, for scripts and for TensorBoard: a line of JSON and an event for each point of
// its log, and for each copy that was played.
//
//   OUT/progress.jsonl   {"steps": 2048, "seconds": 0.1, "episodes": 90, "mean_return": 21.5, "mean_length": 21.5, ...}
//                        {"steps": 25000, "evaluation": 480.2, "deviation": 12.0, "again": false}
//   OUT/tensorboard/     "rollout/mean_return", "rollout/mean_length", "rollout/episodes", "rollout/steps_per_second",
//                        "learner/kl", ..., "evaluation/mean_return", "evaluation/again"
//
// One thread at a time.
//
// JRN-1  Training does not end because of it: a file that cannot be written is told once, and left.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "apps/common/tensorboard/event_file.h"
#include "apps/rl/training/gate.h"
#include "apps/rl/training/json_lines.h"
#include "apps/rl/training/training_log.h"

namespace rl {

struct JournalOptions {
  std::filesystem::path folder;
  std::int64_t first_step = 0;   // where the run was resumed
  bool tensorboard = true;
};

class Journal {
 public:
  /// `warn`: told of what cannot be written.
  Journal(const JournalOptions& options, std::function<void(const std::string&)> warn);

  /// Once a round: writes when the log has a new point.
  void add(const TrainingLog& log, double steps_per_second);
  void add(const CopyResult& result, bool again);
  void flush();

 private:
  void line(const boost::json::object& line);
  void event(std::int64_t step, std::span<const apps::tensorboard::Scalar> scalars);
  void lost(const char* what, const troupe::Error& error);

  std::function<void(const std::string&)> warn_;
  std::optional<JsonLines> lines_;
  std::optional<apps::tensorboard::EventFile> events_;
  std::int64_t written_ = -1;  // steps of the last point
};

}  // namespace rl

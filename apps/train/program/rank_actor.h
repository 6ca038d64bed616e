// RankActor: a rank of the job as a process actor, a thin shell around train_rank.
//
//   driver --run(group)--> RankActor x W     one thread trains; the other one answers news(), stop() and the like
//
// A rank that is killed is not restarted: the driver forms the group again without it, and brings a new one (drive.h).
// Thread rule: that of an actor with two threads: run() on one, the rest meanwhile on the other.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <troupe/troupe.h>

#include "apps/train/program/job.h"
#include "apps/train/program/notebook.h"

namespace troupe::train {

struct RunOrder {
  std::string group = {};
  std::uint64_t after_epoch = 0;
  bool resume = false;  ///< begin with the newest checkpoint
};

struct RankSummary {
  std::int64_t steps = 0;
  bool stopped = false;
  std::string error = {};  ///< why it ended; empty: all is well
};

class RankActor {
 public:
  /// Throws what make_job returns.
  explicit RankActor(JobSettings settings);

  RankSummary run(RunOrder order);
  News news() { return notebook_.take(); }
  void stop() { notebook_.ask_to_stop(); }
  /// There are newcomers for whom the group of this epoch is to be left (NB-3).
  void announce_newcomer(std::uint64_t epoch) { notebook_.announce_newcomer(epoch); }
  int pid() const;
  std::string device() const { return job_->device(); }
  /// After run().
  std::string sample(SampleOptions options);

 private:
  JobSettings settings_;
  std::unique_ptr<Job> job_;
  Notebook notebook_;
  std::vector<float> parameters_;
};

}  // namespace troupe::train

// The training of one rank: job and group in, trained parameters out. Actors, processes under mpirun and threads of a
// test share it; it knows of none of them.
//
// Thread rule: one thread a rank; the notebook is read from others.
#pragma once
#include <functional>
#include <vector>

#include <troupe/collective.h>
#include <troupe/result.h>

#include "apps/train/elastic/elastic.h"
#include "apps/train/program/job.h"
#include "apps/train/program/notebook.h"

namespace troupe::train {

struct RankHooks {
  /// The next group after this one (ElasticOptions::regroup); empty: a failure ends the run.
  std::function<Result<collective::Group>(const collective::Group& group)> regroup = {};
  std::function<void()> on_note = {};  ///< after the notebook was written to; may be empty
};

struct RankResult {
  ElasticOutcome outcome = {};
  std::vector<float> parameters = {};
};

/// Errors: those of ElasticRun::run, and InvalidArgumentError for settings that cannot be.
Result<RankResult> train_rank(Job& job, const RunSettings& run, collective::Group group, Notebook& notebook,
                              const RankHooks& hooks);

}  // namespace troupe::train

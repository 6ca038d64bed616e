// DatasetRun: makes what is missing of a data set, in a cluster, and commits it. Inside of troupe::run.
//
//   plan ─▶ tasks (make_shard), as many as the window allows ─▶ outcomes ─▶ one group at a time ─▶ Coordinator
//             └ retried by the runtime when they crash or throw, by the driver when they hang
//   all committed ─▶ what the format has beside its shards, the generator's picture and its check
//
// One thread.
//
// DRN-1  run() returns when every shard is committed. When it throws, what was committed stays, no task of it is left,
//        and no temporary: another run goes on from there.
// DRN-2  The group that was sent and not answered when a coordinator died is sent again to its next life.
// DRN-3  A shard is given up after `retries` attempts beside the first one; those that the kernel ended for want of
//        memory are counted by themselves, up to as many.
// DRN-4  A coordinator that does not answer within `commit_timeout`, at the start or to a commit, is ended, and its
//        next life is asked again. From then on it has twice the time, and so on: a slow disk is not a process that
//        stands still.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <troupe/duration.h>

#include "apps/datagen/run/dataset_folder.h"
#include "apps/datagen/run/report.h"

namespace datagen {

struct RunSettings {
  std::uint64_t workers = 0;          ///< tasks at a time; 0: one a CPU
  std::uint64_t retries = 3;          ///< DRN-3
  troupe::Duration shard_timeout = troupe::kForever;
  troupe::Duration commit_timeout = std::chrono::seconds(60);  ///< DRN-4
  std::uint64_t open_bytes = std::uint64_t{1} << 30;  ///< of shards that are not committed
};

struct RunEvents {
  std::function<void(const RunReport&)> progress = [](const RunReport&) {};  ///< often
  std::function<void(const std::string&)> note = [](const std::string&) {};  ///< a line for the user
};

class DatasetRun {
 public:
  DatasetRun(std::filesystem::path out, DatasetFolder dataset, const RunSettings& settings, RunEvents events);
  ~DatasetRun();

  /// DRN-1. CancelledError: the user ended it.
  void run();
  [[nodiscard]] const RunReport& report() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace datagen

// The driver's life inside run, for run itself and for testing::run.
#pragma once
#include <functional>
#include <span>
#include <string>

#include <troupe/options.h>

namespace troupe::worker {

struct DriverOptions {
  std::string socket_path;
  std::string name_space;
  std::string log_level;
  Duration shutdown_grace = std::chrono::seconds(10);
  std::vector<std::string> argv;
  std::function<void()> stop_cluster;   ///< ends what run itself started; called once
};

/// Connects, runs the driver function on this thread, ends the job. The exit code of run.
int run_driver(const DriverOptions& options, const std::function<int()>& driver);

}  // namespace troupe::worker

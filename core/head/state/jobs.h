// The jobs: one a driver. A job runs until its driver finished or died, or the driver's node died.
//
//   register           finish, driver died, node died
//   --------> RUNNING --------------------------------> SUCCEEDED (exit code 0) or FAILED
//
// Invariants
//   JB-1  Job numbers ascend from 1 and are never given twice.
//   JB-2  A job without a namespace of its own gets an anonymous one, unique to it and not empty: two drivers do not
//         see each other's names unless they ask for a common one.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/head/state/events.h"
#include "core/base/random.h"

namespace troupe::head {

/// Ended jobs that are still listed.
inline constexpr std::size_t kEndedJobsKept = 1000;

struct Job {
  JobId id = 0;
  ProcessId driver;
  std::int32_t driver_pid = 0;
  std::string name_space;
  std::string registry_digest;   ///< of the functions of its program: an actor is called only by programs with the same
  std::string state = "RUNNING";
};

class Jobs {
 public:
  /// Registers, or finds the job that this very driver has already.
  const Job& add(const wire::RegisterJob& request, Random& random);
  /// Ends it; false when it has ended already or is unknown.
  bool end(JobId job, bool failed);

  const Job* find(JobId job) const;
  bool running(JobId job) const;
  /// The running job of this driver.
  const Job* of_driver(ProcessId driver) const;
  /// Running jobs whose driver is on this node.
  std::vector<JobId> with_driver_on(std::uint32_t node) const;
  const std::map<JobId, Job>& all() const { return jobs_; }

 private:
  std::map<JobId, Job> jobs_;
  JobId last_ = 0;
  std::size_t ended_ = 0;
};

}  // namespace troupe::head

// JobOutput: before a driver ends it asks for what the processes of its job have written and it has not been shown yet.
//
//   driver --kJobOutput--> its daemon --kFlushOutput--> the job's processes here
//                              `--kJobOutput--> the daemons that it is linked to, which do the same
//   all answered, or late --> pipes are read to their ends, lines leave for the driver --> the answer, after them on
//   the same way
//
// Thread rule: the loop's thread.
//
// Invariants
//   JO-1  A request is answered once, within kOutputWait and the reading of pipes.
//   JO-2  Before the answer, the driver was sent all that its processes had printed by the end of their last calls; a
//         process that does not answer in time, all that had reached its pipe.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/node/base/messenger.h"
#include "core/node/base/process_table.h"
#include "core/node/logs/log_pump.h"

namespace troupe::node {

class JobOutput {
 public:
  using Nodes = std::function<std::vector<std::uint32_t>()>;
  JobOutput(ProcessTable& table, Messenger& messenger, LogPumps& logs, Nodes linked)
      : table_(table), messenger_(messenger), logs_(logs), linked_(std::move(linked)) {}

  void hand_over(const net::FrameHeader& request, const wire::JobOutput& wanted);

 private:
  struct Asked {
    net::FrameHeader request;
    JobId job = 0;
    std::size_t open = 0;
  };
  void answered(const std::shared_ptr<Asked>& asked);
  std::vector<ProcessId> processes(JobId job) const;

  ProcessTable& table_;
  Messenger& messenger_;
  LogPumps& logs_;
  const Nodes linked_;
};

}  // namespace troupe::node

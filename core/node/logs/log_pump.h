// LogPumps: reads what the processes of this node write to their standard output and error; to files of the session
// folder as it is, and to the driver filtered (LogFilter) and prefixed.
//
// Thread rule: the loop's thread. A log that cannot be written is counted and dropped: work goes on.
//
// Invariants
//   LP-1  finish() has read everything that the process had written: its tail is complete.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/base/ids.h"
#include "core/node/logs/log_filter.h"
#include "core/node/base/loop.h"
#include "core/wire/messages.h"

namespace troupe::node {

class LogPumps {
 public:
  using Sink = std::function<void(ProcessId process, wire::LogLines lines)>;
  LogPumps(Loop& loop, std::string folder, Sink sink)
      : loop_(loop), folder_(std::move(folder)), sink_(std::move(sink)) {}
  ~LogPumps();

  void start(ProcessId process, UniqueFd out, UniqueFd err);
  /// Reads to the end and closes; returns the last lines of both, oldest first.
  std::vector<std::string> finish(ProcessId process);
  /// Reads what is there now; a line that has no end yet is shown as it is.
  void drain(ProcessId process);
  void set_prefix(ProcessId process, std::string prefix);

 private:
  struct Stream { UniqueFd pipe, file; std::string path; LogFilter filter; };
  struct Pump { std::array<Stream, 2> streams; std::string prefix; bool flush_planned = false; };

  /// False: the pipe is at its end, or empty.
  bool read_some(ProcessId id, Pump& pump, int which);
  void show(ProcessId id, const Pump& pump, int which, std::vector<std::string> lines);
  void plan_flush(ProcessId id, Pump& pump);
  void read_all(ProcessId id, Pump& pump, int which);

  Loop& loop_;
  std::string folder_;
  Sink sink_;
  std::map<ProcessId, Pump> pumps_;
  std::uint64_t bytes_lost_ = 0;
};

}  // namespace troupe::node

// A call that arrived here to be run, taken out of its frame.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/frames.h"
#include <troupe/detail/counted.h>
#include <troupe/options.h>
#include <troupe/result.h>

namespace troupe::worker {

struct CallContext;
struct CallGroup;

struct IncomingCall {
  CallHead head;
  ProcessId source;
  ProcessId ring;                       // the peer whose ring brought it: the source, or the daemon
  std::uint64_t begin_number = 0;       // to be noted on that ring when it begins
  std::string name, key, group;
  Resources resources;
  std::vector<int> gpu_ids;
  bool lent = false;                    // CallContext::lent, when it has ended
  std::uint32_t run_us = kNotRun;       // ReplyHead::run_us; 0 while it runs, measured when it has ended
  detail::Value arguments;
  std::vector<detail::Value> dependencies;
  CallGroup* admitted = nullptr;        // actors: the group whose place it takes
  CallContext* running = nullptr;       // while it runs
  bool dropped = false;                 // cancelled or without a submitter before it began, or its stream was dropped
  ErrorPtr dropped_why;                 // null: CancelledError
  IncomingCall* next_admitted = nullptr;      // actors: the list of calls that have their place and do not run yet
  IncomingCall* previous_admitted = nullptr;
  std::uint64_t stream_taken = 0;       // items that the reader has taken; lock held
};
using IncomingPtr = std::shared_ptr<IncomingCall>;

}  // namespace troupe::worker

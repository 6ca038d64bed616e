// Finding and ending every process that a session, node, job or worker started, by the mark in its environment.
//
// The mark is TROUPE_INTERNAL_MARK=<session>/<node name>/<job, 8 hex>/<serial, 8 hex>. It is in the environment that
// launchers are exec'd with; a forked worker writes its own serial over the last digits in place, so that
// /proc/PID/environ of the worker and of everything that it forks or execs, double-forked or not, tells whose it is.
//
// Thread rule: any thread. Cost: one pass over /proc, about 20 us a process.
//
// Invariants
//   STR-1  Only processes whose own mark begins with the prefix are ended; never the caller.
//   STR-2  kill_marked returns when a pass found none alive, or when the time is over.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include <troupe/duration.h>

namespace troupe::node {

std::string mark_of(const std::string& session, const std::string& node, JobId job, std::uint32_t serial);
/// Prefix for everything of a job on a node.
std::string mark_of_job(const std::string& session, const std::string& node, JobId job);
/// Writes the serial over the end of this process's mark, in place.
void set_mark_serial(std::uint32_t serial);

struct Marked { int pid = 0; std::string mark; };
std::vector<Marked> find_marked(std::string_view prefix);
/// SIGKILL to all of them, again and again until none is left. Returns how many were hit.
int kill_marked(std::string_view prefix, Duration limit);
/// One pass with a predicate on the mark; returns how many were hit.
int kill_where(std::string_view prefix, const std::function<bool(const Marked&)>& choose);

/// For a subreaper at its end: SIGKILL to all children and reaping them, until none is left: orphans of theirs become
/// ours and are next. `signals` is a signalfd that takes SIGCHLD.
void end_children(int signals, Duration limit);

}  // namespace troupe::node

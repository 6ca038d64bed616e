// The last rows: what a cluster's head knew when it ended in order, in its session's folder, so that `troupe list` can
// show it afterwards. Nodes, jobs, actors and metrics outlive a cluster; tasks, objects, workers and stores are known
// to processes that are gone by then.
//
//   events/KIND.rows   magic(8) and an encoded wire::StateReply; KIND: nodes, jobs, actors, metrics
//
// Thread rule: any thread; files are written whole and renamed into place.
//
// Invariants
//   LRW-1  At most wire::kRowsMax rows a kind are kept; `total` counts those that were not.
//   LRW-2  A file that was cut off or that another version wrote is an error that says so, never rows.
#pragma once
#include <string>

#include "core/wire/messages.h"
#include <troupe/result.h>

namespace troupe::node {

/// Null: rows of this kind are not kept.
const char* last_rows_name(wire::StateKind kind);
/// What cannot be kept is a warning in the log.
void keep_last_rows(const std::string& session_dir, wire::StateKind kind, const wire::StateReply& rows);
/// NotFoundError: the kind is not kept, or the cluster still runs or did not end in order. SerializationError: LRW-2.
Result<wire::StateReply> read_last_rows(const std::string& session_dir, wire::StateKind kind);

}  // namespace troupe::node

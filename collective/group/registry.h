// What a group's founder leaves in the cluster's key-value table, so that members find it, and how that is written
// down.
//
// Pure; any thread.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include <troupe/collective_types.h>
#include <troupe/result.h>

namespace troupe::collective {

/// A rank: which actor, in which of its lives, in which process, where others reach that process's daemon, and whether
/// it was made with a GPU or a part of one.
struct GroupMember {
  std::string actor, node, data_address;
  ProcessId process;
  int restarts = 0;
  bool gpu = false;
};

/// The memory of the ranks on one node: opened through the process of the lowest of them, which holds its descriptor.
struct NodeMemory {
  std::string node;
  int pid = 0, fd = -1;
};

/// One epoch of one group. The secret is known to who can read the table: the job's processes. All keys are made of it.
struct GroupRecord {
  std::uint64_t epoch = 0;
  bool destroyed = false;              ///< the name is free again; the epoch stays, so that the next one is larger
  std::int64_t timeout_ns = 0;
  Backend backend = Backend::kShm, asked = Backend::kAuto;  ///< asked: for the next epoch's choice
  bool deterministic = false;
  std::uint64_t id = 0;                ///< a random number for this epoch of this group
  std::string secret;                  ///< 64 hexadecimal digits
  ProcessId founder;                   ///< hears of failures, tells them to all
  std::vector<NodeMemory> memories;
  std::vector<GroupMember> members;    ///< by rank
};

std::string encode(const GroupRecord& record);
/// SerializationError for text that encode did not write.
Result<GroupRecord> decode_record(const std::string& text);
/// Where a group's record stands.
std::string record_key(const std::string& job, const std::string& name);

}  // namespace troupe::collective

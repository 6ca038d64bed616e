// Forming: what create_group, reform and destroy_group do, and what they share with the members' side (actors.cc).
//
// Thread rule: any thread of a driver or worker; all of it waits for other processes.
#pragma once
#include <optional>
#include <string>

#include "collective/group/registry.h"

namespace troupe::collective {

/// Where the record of a group of this job stands. InvalidArgumentError for an empty name.
std::string group_key(const std::string& name);
std::optional<GroupRecord> find_record(const std::string& key);
/// What proves that a memory is that of this epoch and node.
std::uint64_t memory_key(const GroupRecord& record, const std::string& node);

}  // namespace troupe::collective

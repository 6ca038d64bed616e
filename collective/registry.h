// What a group's founder leaves in the cluster's key-value table, so that members find it, and how that is written down.
//
// Pure; any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <troupe/collective_types.h>
#include <troupe/result.h>

namespace troupe::collective {

/// One epoch of one group. The memory is opened through the founder's process, which holds its descriptor; the key proves
/// that it is the right one.
struct GroupRecord {
  std::uint64_t epoch = 0;
  bool destroyed = false;              ///< the name is free again; the epoch stays, so that the next one is larger
  std::int64_t timeout_ns = 0;
  int founder_pid = 0, founder_fd = -1;
  std::uint64_t key = 0;
  std::vector<std::string> members;    ///< actor ids, by rank
};

std::string encode(const GroupRecord& record);
/// SerializationError for text that encode did not write.
Result<GroupRecord> decode_record(const std::string& text);
/// Where a group's record stands.
std::string record_key(const std::string& job, const std::string& name);

}  // namespace troupe::collective

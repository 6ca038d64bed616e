#include "collective/registry.h"

#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::collective {

namespace {
constexpr const char* kFormat = "troupe-group-1";
}

std::string encode(const GroupRecord& record) {
  return fmt::format("{} {} {} {} {} {} {} {} {}", kFormat, record.epoch, record.destroyed ? 1 : 0, record.timeout_ns, record.founder_pid, record.founder_fd, record.key,
                     record.members.size(), fmt::join(record.members, " "));
}

Result<GroupRecord> decode_record(const std::string& text) {
  std::istringstream in(text);
  std::string format;
  GroupRecord record;
  std::size_t count = 0;
  in >> format >> record.epoch >> record.destroyed >> record.timeout_ns >> record.founder_pid >> record.founder_fd >> record.key >> count;
  if (!in || format != kFormat || count > 4096) return SerializationError("this is not the record of a collective group of this version");
  for (std::string member; count > 0 && in >> member; --count) record.members.push_back(member);
  if (count != 0) return SerializationError("the record of a collective group is cut short");
  return record;
}

std::string record_key(const std::string& job, const std::string& name) { return fmt::format("__collective/{}/{}", job, name); }

}  // namespace troupe::collective

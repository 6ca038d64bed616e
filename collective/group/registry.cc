#include "collective/group/registry.h"

#include <sstream>

#include <fmt/format.h>

namespace troupe::collective {

namespace {
constexpr const char* kFormat = "troupe-group-3";
constexpr std::size_t kRanksMax = 4096;
constexpr const char* kNone = "-";

std::string or_none(const std::string& text) { return text.empty() ? kNone : text; }
std::string from_none(std::string text) { return text == kNone ? std::string() : text; }
}  // namespace

std::string encode(const GroupRecord& r) {
  std::string text = fmt::format("{} {} {} {} {} {} {} {} {} {} {}", kFormat, r.epoch, r.destroyed ? 1 : 0,
                                 r.timeout_ns, int(r.backend), int(r.asked), r.deterministic ? 1 : 0, r.id,
                                 or_none(r.secret), r.founder.node, r.founder.serial);
  text += fmt::format(" {}", r.memories.size());
  for (const NodeMemory& m : r.memories) text += fmt::format(" {} {} {}", or_none(m.node), m.pid, m.fd);
  text += fmt::format(" {}", r.members.size());
  for (const GroupMember& m : r.members)
    text += fmt::format(" {} {} {} {} {} {} {}", or_none(m.actor), or_none(m.node), or_none(m.data_address),
                        m.process.node, m.process.serial, m.restarts, m.gpu ? 1 : 0);
  return text;
}

Result<GroupRecord> decode_record(const std::string& text) {
  std::istringstream in(text);
  std::string format;
  GroupRecord r;
  int backend = 0, asked = 0;
  std::size_t memories = 0, members = 0;
  in >> format >> r.epoch >> r.destroyed >> r.timeout_ns >> backend >> asked >> r.deterministic >> r.id >> r.secret >>
      r.founder.node >> r.founder.serial >> memories;
  if (!in || format != kFormat || backend < 0 || backend > int(Backend::kNccl) || asked < 0 ||
      asked > int(Backend::kNccl) || memories > kRanksMax)
    return SerializationError("this is not the record of a collective group of this version");
  r.backend = Backend(backend);
  r.asked = Backend(asked);
  r.secret = from_none(r.secret);
  for (NodeMemory m; r.memories.size() < memories && in >> m.node >> m.pid >> m.fd;) {
    m.node = from_none(m.node);
    r.memories.push_back(m);
  }
  if (!(in >> members) || members > kRanksMax)
    return SerializationError("the record of a collective group is cut short");
  for (GroupMember m; r.members.size() < members && in >> m.actor >> m.node >> m.data_address >> m.process.node >>
                                                        m.process.serial >> m.restarts >> m.gpu;) {
    m.actor = from_none(m.actor), m.node = from_none(m.node), m.data_address = from_none(m.data_address);
    r.members.push_back(m);
  }
  if (r.members.size() != members || r.memories.size() != memories)
    return SerializationError("the record of a collective group is cut short");
  // Whoever replaces a record names the text that stands there by encoding what was decoded (forming.cc, GA-1).
  if (encode(r) != text) return SerializationError("this is not how the record of a collective group is written");
  return r;
}

std::string record_key(const std::string& job, const std::string& name) {
  return fmt::format("__collective/{}/{}", job, name);
}

}  // namespace troupe::collective

#include "core/head/state/listing.h"

#include <algorithm>
#include <cstdio>

#include "core/wire/rows.h"

namespace troupe::head {
namespace {

std::string quoted_json(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      out += code;
    } else out += c;
  }
  return out + "\"";
}

}  // namespace

const std::vector<std::string>& row_fields(wire::StateKind kind) {
  static const std::vector<std::string> nodes{"node_id",   "address",   "state",  "is_head",
                                              "resources", "available", "labels", "pid"};
  static const std::vector<std::string> actors{"actor_id", "name",    "name_space", "class_name",
                                               "state",    "node_id", "pid",        "restarts"};
  static const std::vector<std::string> tasks{"task_id",  "name",  "state", "node_id",
                                              "actor_id", "error", "pid",   "attempt"};
  static const std::vector<std::string> objects{"object_id", "state", "node_id", "size", "refs"};
  static const std::vector<std::string> workers{"worker_id", "node_id", "state", "pid"};
  static const std::vector<std::string> jobs{"job_id", "name_space", "state", "driver_pid"};
  static const std::vector<std::string> groups{"id", "name", "state", "strategy"};
  static const std::vector<std::string> stores{"node_id", "capacity", "used", "spilled", "objects"};
  static const std::vector<std::string> metrics{"name", "kind", "value", "count", "buckets", "processes"};
  switch (kind) {
    case wire::StateKind::kNodes: return nodes;
    case wire::StateKind::kActors: return actors;
    case wire::StateKind::kTasks: return tasks;
    case wire::StateKind::kObjects: return objects;
    case wire::StateKind::kWorkers: return workers;
    case wire::StateKind::kJobs: return jobs;
    case wire::StateKind::kPlacementGroups: return groups;
    case wire::StateKind::kStores: return stores;
    case wire::StateKind::kMetrics: return metrics;
  }
  static const std::vector<std::string> none;
  return none;
}

std::optional<std::string> query_problem(const wire::StateQuery& query) {
  const auto& fields = row_fields(query.kind);
  if (fields.empty()) return "unknown kind of list: " + std::to_string(static_cast<int>(query.kind));
  if (query.limit < -1) return "the limit of a list must be >= 0, or kNoLimit, not " + std::to_string(query.limit);
  for (const auto& [field, value] : query.filter) {
    if (std::find(fields.begin(), fields.end(), field) != fields.end()) continue;
    std::string known;
    for (const std::string& name : fields) known += (known.empty() ? "" : ", ") + name;
    return "no field \"" + field + "\" to filter by; this list has " + known;
  }
  return std::nullopt;
}

std::string json_text(const std::map<std::string, double>& amounts) {
  std::string out = "{";
  for (const auto& [name, amount] : amounts) {
    char number[40];
    std::snprintf(number, sizeof number, "%.17g", amount);
    char shorter[40];
    std::snprintf(shorter, sizeof shorter, "%.12g", amount);
    out += (out.size() > 1 ? ", " : "") + quoted_json(name) + ": " + (std::stod(shorter) == amount ? shorter : number);
  }
  return out + "}";
}

std::string json_text(const std::map<std::string, std::string>& labels) {
  std::string out = "{";
  for (const auto& [name, value] : labels)
    out += (out.size() > 1 ? ", " : "") + quoted_json(name) + ": " + quoted_json(value);
  return out + "}";
}

std::vector<std::map<std::string, std::string>> node_rows(const Membership& membership) {
  std::vector<std::map<std::string, std::string>> rows;
  for (const wire::NodeInfo& info : membership.infos()) {
    rows.push_back({{"node_id", info.node_id},
                    {"address", info.address},
                    {"state", info.state},
                    {"is_head", info.is_head ? "true" : "false"},
                    {"resources", json_text(info.resources)},
                    {"available", json_text(info.available)},
                    {"labels", json_text(info.labels)},
                    {"pid", std::to_string(info.pid)}});
  }
  return rows;
}

void Listing::ask(Turn& turn, Caller caller, wire::StateQuery query, const std::vector<std::uint32_t>& nodes) {
  Pending pending{caller, query, {nodes.begin(), nodes.end()}, {}, turn.now + kListDeadline};
  if (nodes.empty()) return finish(turn, pending);
  const std::uint64_t token = ++last_token_;
  for (std::uint32_t node : nodes) turn.effects.request(daemon_of(node), wire::Method::kQueryState, token, query);
  pending_.emplace(token, std::move(pending));
}

void Listing::on_answer(Turn& turn, std::uint32_t node, std::uint64_t token, Message body) {
  auto at = pending_.find(token);
  if (at == pending_.end() || at->second.missing.erase(node) == 0) return;
  Pending& pending = at->second;
  if (auto* reply = std::get_if<wire::StateReply>(&body)) {
    wire::merge_rows(pending.query, std::move(*reply), pending.reply);
  } else {
    auto* error = std::get_if<ErrorRecord>(&body);
    pending.reply.warnings.push_back("node " + std::to_string(node) +
                                     " could not answer: " + (error ? error->message : "unreadable reply"));
  }
  if (!pending.missing.empty()) return;
  finish(turn, pending);
  pending_.erase(at);
}

void Listing::on_node_died(Turn& turn, std::uint32_t node) {
  for (auto at = pending_.begin(); at != pending_.end();) {
    Pending& pending = at->second;
    if (pending.missing.erase(node) != 0)
      pending.reply.warnings.push_back("node " + std::to_string(node) + " died while it was asked");
    if (!pending.missing.empty()) { ++at; continue; }
    finish(turn, pending);
    at = pending_.erase(at);
  }
}

void Listing::on_time(Turn& turn) {
  while (!pending_.empty() && pending_.begin()->second.deadline <= turn.now) {
    Pending& pending = pending_.begin()->second;
    for (std::uint32_t node : pending.missing)
      pending.reply.warnings.push_back("node " + std::to_string(node) +
                                       " did not answer within 1 s; its rows are missing");
    finish(turn, pending);
    pending_.erase(pending_.begin());
  }
}

void Listing::finish(Turn& turn, Pending& pending) {
  wire::merge_rows(pending.query, own_rows_(pending.query), pending.reply);
  turn.effects.respond(pending.caller.process, pending.caller.token, std::move(pending.reply));
}

std::optional<Time> Listing::next_deadline() const {
  return pending_.empty() ? std::nullopt : std::optional<Time>(pending_.begin()->second.deadline);
}

}  // namespace troupe::head

#include "core/node/daemon/state_queries.h"

#include <iterator>
#include <memory>

namespace troupe::node {
namespace {
constexpr Duration kQueryWait = std::chrono::milliseconds(800);
}

void StateQueries::answer(const net::FrameHeader& request, const wire::StateQuery& query) {
  if (query.kind == wire::StateKind::kWorkers) messenger_.respond(request, workers(query));
  else ask_processes(request, query);
}

std::string StateQueries::state_of(const NodeProcess& process) const {
  if (process.state == NodeProcess::State::kStarting) return "STARTING";
  if (process.state == NodeProcess::State::kDying) return "DYING";
  if (process.actor || process.light_host) return "ACTOR";
  const std::string state = leases_.queue().worker_state(process.id);
  return state.empty() ? "RETIRING" : state;
}

wire::StateReply StateQueries::workers(const wire::StateQuery& query) const {
  wire::StateReply reply;
  for (auto& [serial, process] : table_.all()) {
    if (process->role != wire::Role::kWorker || (query.job != 0 && process->job != query.job)) continue;
    reply.rows.push_back({{"worker_id", to_string(process->id)}, {"node_id", node_id_}, {"state", state_of(*process)},
                          {"pid", std::to_string(process->pid)}});
  }
  return reply;
}

void StateQueries::ask_processes(const net::FrameHeader& request, const wire::StateQuery& query) {
  struct Gathered {
    wire::StateReply reply;
    std::size_t open = 0;
  };
  auto gathered = std::make_shared<Gathered>();  // shared by the answers of all processes
  std::vector<ProcessId> asked;
  for (auto& [serial, process] : table_.all()) {
    const bool answers = process->state == NodeProcess::State::kAlive && process->role != wire::Role::kTool;
    const bool knows = query.kind != wire::StateKind::kActors || process->light_host;  // the head has the others' actors
    if (answers && knows && (query.job == 0 || process->job == query.job)) asked.push_back(process->id);
  }
  gathered->open = asked.size();
  if (asked.empty()) return messenger_.respond(request, gathered->reply);
  for (ProcessId id : asked) {
    messenger_.request(id, wire::Method::kQueryState, query, kQueryWait, [this, gathered, request, id, query](Result<Messenger::Bytes> bytes) {
      Result<wire::StateReply> part =
          bytes.ok() ? wire::decode_message<wire::StateReply>(*bytes) : Result<wire::StateReply>(bytes.error_ptr());
      wire::StateReply& all = gathered->reply;
      if (part.ok()) {
        std::move(part->rows.begin(), part->rows.end(), std::back_inserter(all.rows));
        std::move(part->warnings.begin(), part->warnings.end(), std::back_inserter(all.warnings));
      } else if (table_.find_alive(id)) {
        all.warnings.push_back("process " + to_string(id) + " of node " + node_id_ + " did not answer");
      }
      if (--gathered->open > 0) return;
      if (query.limit >= 0 && all.rows.size() > static_cast<std::size_t>(query.limit)) all.rows.resize(static_cast<std::size_t>(query.limit));
      messenger_.respond(request, all);
    });
  }
}

}  // namespace troupe::node

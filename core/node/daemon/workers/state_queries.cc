#include "core/node/daemon/workers/state_queries.h"

#include <memory>

#include "core/wire/rows.h"

namespace troupe::node {
namespace {
constexpr Duration kQueryWait = std::chrono::milliseconds(800);
}

void StateQueries::answer(const net::FrameHeader& request, const wire::StateQuery& query) {
  if (query.kind == wire::StateKind::kWorkers) messenger_.respond(request, workers(query));
  else if (query.kind == wire::StateKind::kStores) messenger_.respond(request, stores(query));
  else ask_processes(request, query);
}

std::string StateQueries::state_of(const NodeProcess& process) const {
  if (process.state == NodeProcess::State::kStarting) return "STARTING";
  if (process.state == NodeProcess::State::kDying) return "DYING";
  if (process.actor || process.light_host) return "ACTOR";
  const std::string state = leases_.queue().workers().state(process.id);
  return state.empty() ? "RETIRING" : state;
}

wire::StateReply StateQueries::workers(const wire::StateQuery& query) const {
  wire::StateReply reply;
  for (auto& [serial, process] : table_.all()) {
    if (process->role != wire::Role::kWorker || (query.job != 0 && process->job != query.job)) continue;
    reply.rows.push_back({{"worker_id", to_string(process->id)}, {"node_id", node_id_}, {"state", state_of(*process)},
                          {"pid", std::to_string(process->pid)}});
  }
  wire::select_rows(query, reply);
  return reply;
}

wire::StateReply StateQueries::stores(const wire::StateQuery& query) const {
  const wire::StoreUsageReply usage = store_.usage();
  wire::StateReply reply;
  reply.rows.push_back({{"node_id", node_id_},
                        {"capacity", std::to_string(usage.capacity)},
                        {"used", std::to_string(usage.used)},
                        {"spilled", std::to_string(usage.spilled)},
                        {"objects", std::to_string(usage.objects)}});
  wire::select_rows(query, reply);
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
    // the head has the others' actors
    const bool knows = query.kind != wire::StateKind::kActors || process->light_host;
    if (answers && knows && (query.job == 0 || process->job == query.job)) asked.push_back(process->id);
  }
  gathered->open = asked.size();
  if (asked.empty()) return messenger_.respond(request, gathered->reply);
  for (ProcessId id : asked) {
    messenger_.request(
        id, wire::Method::kQueryState, query, kQueryWait,
        [this, gathered, request, id, query](Result<Messenger::Bytes> bytes) {
          Result<wire::StateReply> part =
              bytes.ok() ? wire::decode_message<wire::StateReply>(*bytes) : Result<wire::StateReply>(bytes.error_ptr());
          wire::StateReply& all = gathered->reply;
          if (part.ok()) {
            wire::merge_rows(query, std::move(*part), all);
          } else if (table_.find_alive(id)) {
            all.warnings.push_back("process " + to_string(id) + " of node " + node_id_ + " did not answer");
          }
          if (--gathered->open > 0) return;
          messenger_.respond(request, all);
        });
  }
}

}  // namespace troupe::node

#include "core/process/state_rows.h"

#include "core/process/core.h"

namespace troupe::worker {

void describe_state(Core& core, const wire::StateQuery& query, wire::StateReply& reply) {
  if (query.kind == wire::StateKind::kActors) {
    core.host().light_report().send();  // before the answer, and on the same way: the head has the rows (LS-3)
  } else if (query.kind == wire::StateKind::kTasks) {
    core.host().describe_tasks(reply);
    core.calls().for_each([&](PendingCall& call) {
      if (call.kind != CallKind::kTask || call.state == PendingCall::State::kSent) return;
      reply.rows.push_back({{"task_id", task_id_text(core.self(), call.id)},
                            {"name", core.calls().name_of(call)},
                            {"state", call.state == PendingCall::State::kWaiting ? "PENDING_ARGUMENTS" : "PENDING"},
                            {"node_id", ""},
                            {"actor_id", ""},
                            {"error", ""},
                            {"pid", "0"},
                            {"attempt", std::to_string(call.attempt)}});
    });
    for (const auto& done : core.calls().finished())
      reply.rows.push_back({{"task_id", done.task_id},
                            {"name", done.name},
                            {"state", done.state},
                            {"node_id", ""},
                            {"actor_id", done.actor_id},
                            {"error", done.error},
                            {"pid", "0"},
                            {"attempt", std::to_string(done.attempt)}});
  } else if (query.kind == wire::StateKind::kObjects) {
    core.objects().for_each([&](ObjectEntry& entry) {
      if (!entry.owned || (query.limit >= 0 && reply.rows.size() >= std::size_t(query.limit) && query.filter.empty()))
        return;
      std::uint64_t size = entry.value.size();
      if (entry.state() == ObjectEntry::kReady && entry.value.attachments)
        for (const auto& buffer : entry.value.attachments->buffers) size += buffer->size();
      const char* state = entry.state() == ObjectEntry::kReady    ? "READY"
                          : entry.state() == ObjectEntry::kFailed ? "FAILED"
                                                                  : "PENDING";
      reply.rows.push_back({{"object_id", to_string(entry.id)},
                            {"state", state},
                            {"node_id", core.welcome().node_id},
                            {"size", std::to_string(size)},
                            {"refs", std::to_string(entry.use_count())}});
    });
  }
}

}  // namespace troupe::worker

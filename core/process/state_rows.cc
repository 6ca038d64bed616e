#include "core/process/state_rows.h"

#include "core/process/core.h"
#include "core/wire/rows.h"

namespace troupe::worker {

namespace {

constexpr const char* kTaskFields[] = {"task_id", "name", "state", "node_id", "actor_id", "error", "pid", "attempt"};
constexpr const char* kObjectFields[] = {"object_id", "state", "node_id", "size", "refs"};

/// Tasks that this process has submitted and that are not at a worker: those are the worker's to tell.
void describe_open_tasks(Core& core, const wire::StateQuery& query, wire::StateReply& reply) {
  core.calls().for_each([&](PendingCall& call) {
    if (call.kind != CallKind::kTask || call.state == PendingCall::State::kSent) return;
    wire::offer_row(query, reply, kTaskFields, [&](std::string_view field) -> std::string {
      if (field == "task_id") return task_id_text(core.self(), call.id);
      if (field == "name") return core.calls().name_of(call);
      if (field == "state") return call.state == PendingCall::State::kWaiting ? "PENDING_ARGUMENTS" : "PENDING";
      if (field == "pid") return "0";
      if (field == "attempt") return std::to_string(call.attempt);
      return {};
    });
  });
}

void describe_ended_tasks(Core& core, const wire::StateQuery& query, wire::StateReply& reply) {
  for (const auto& done : core.calls().finished())
    wire::offer_row(query, reply, kTaskFields, [&](std::string_view field) -> std::string {
      if (field == "task_id") return done.task_id;
      if (field == "name") return done.name;
      if (field == "state") return done.state;
      if (field == "actor_id") return done.actor_id;
      if (field == "error") return done.error;
      if (field == "pid") return "0";
      if (field == "attempt") return std::to_string(done.attempt);
      return {};
    });
}

std::uint64_t size_of(const ObjectEntry& entry) {
  std::uint64_t size = entry.value.size();
  if (entry.state() == ObjectEntry::kReady && entry.value.attachments)
    for (const auto& buffer : entry.value.attachments->buffers) size += buffer->size();
  return size;
}

void describe_objects(Core& core, const wire::StateQuery& query, wire::StateReply& reply) {
  core.objects().for_each([&](ObjectEntry& entry) {
    if (!entry.owned) return;
    wire::offer_row(query, reply, kObjectFields, [&](std::string_view field) -> std::string {
      if (field == "object_id") return to_string(entry.id);
      if (field == "state")
        return entry.state() == ObjectEntry::kReady    ? "READY"
               : entry.state() == ObjectEntry::kFailed ? "FAILED"
                                                       : "PENDING";
      if (field == "node_id") return core.welcome().node_id;
      if (field == "size") return std::to_string(size_of(entry));
      if (field == "refs") return std::to_string(entry.use_count());
      return {};
    });
  });
}

}  // namespace

void describe_state(Core& core, const wire::StateQuery& query, wire::StateReply& reply) {
  if (query.kind == wire::StateKind::kActors) {
    core.host().light_report().send();  // before the answer, and on the same way: the head has the rows (LS-3)
  } else if (query.kind == wire::StateKind::kTasks) {
    core.host().describe_tasks(reply);
    wire::select_rows(query, reply);
    describe_open_tasks(core, query, reply);
    describe_ended_tasks(core, query, reply);
  } else if (query.kind == wire::StateKind::kObjects) {
    describe_objects(core, query, reply);
  }
}

}  // namespace troupe::worker

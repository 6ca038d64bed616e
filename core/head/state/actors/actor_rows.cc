#include "core/head/state/actors/actor_rows.h"

#include <string>
#include <utility>

namespace troupe::head {
namespace {

const char* state_text(wire::ActorState state) {
  static constexpr const char* kNames[] = {"PENDING", "ALIVE", "RESTARTING", "DEAD"};
  return kNames[static_cast<int>(state)];
}

/// One actor's row, in words.
struct Row {
  ActorId id;
  std::string name, name_space, class_name;
  const char* state = "";
  std::string node;
  int pid = 0, restarts = 0;
};

void add(wire::StateReply& reply, Row row) {
  reply.rows.push_back({{"actor_id", to_string(row.id)},
                        {"name", std::move(row.name)},
                        {"name_space", std::move(row.name_space)},
                        {"class_name", std::move(row.class_name)},
                        {"state", row.state},
                        {"node_id", std::move(row.node)},
                        {"pid", std::to_string(row.pid)},
                        {"restarts", std::to_string(row.restarts)}});
}

}  // namespace

wire::StateReply ActorRows::of_job(JobId job) const {
  const auto& [actors, light, graveyard, membership, jobs] = sources_;
  wire::StateReply reply;
  for (ActorId id : job == 0 ? actors.all() : actors.of_job(job)) {
    const ActorRecord& actor = *actors.find(id);
    add(reply, {id, actor.spec.name, actor.spec.name_space, actor.spec.class_name,
                state_text(actor.location(membership).state), membership.node_id(actor.last_node), actor.pid,
                actor.restarts});
  }
  for (ActorId id : light.all()) {
    const LightActor& actor = *light.find(id);
    if (job != 0 && actor.job != job) continue;
    const Job* owner = jobs.find(actor.job);
    add(reply, {id, "", owner ? owner->name_space : "", light.class_name(actor), "ALIVE",
                membership.node_id(actor.host.node)});
  }
  graveyard.each([&](const DeadActor& dead) {
    if (job != 0 && dead.job != job) return;
    add(reply, {dead.id, dead.name, dead.name_space, dead.class_name, "DEAD", dead.death.node, dead.death.pid,
                dead.death.restarts});
  });
  return reply;
}

}  // namespace troupe::head

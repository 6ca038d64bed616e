#include "core/node/daemon/workers/actor_starts.h"

#include "core/base/log.h"

namespace troupe::node {

void ActorStarts::start(wire::StartActor message) {
  ++seen_;
  const ActorKey key{message.spec.id, message.restarts};
  const JobId job = message.spec.job;
  const ProcessId who_knows = daemon_of(message.image_at);
  const sched::ResourceSet need = sched::ResourceSet::from(message.spec.resources, sched::kActorCpus);
  starts_[key] = Start{std::move(message), {}, false};
  parts_.jobs.with(job, who_knows, [this, key, job, need](Job* known) {
    if (!starts_.contains(key)) return;
    if (known) parts_.leases.queue().admit_actor(key.first, key.second, need, parts_.loop.now());
    else
      failed(key,
             make_record(ErrorCode::kRuntimeEnv,
                         "the program of job " + std::to_string(job) + " is not known on node " + node_id_),
             true);
    parts_.leases.apply();
  });
}

void ActorStarts::admitted(const ActorKey& key, const std::vector<int>& gpu_ids) {
  auto it = starts_.find(key);
  if (it == starts_.end()) return give_back(key);
  it->second.gpu_ids = gpu_ids;
  it->second.admitted = true;
  place(key);
}

void ActorStarts::not_admitted(const ActorKey& key, const std::string& reason) {
  failed(key, make_record(ErrorCode::kInfeasible, reason), true);
}

void ActorStarts::place(const ActorKey& key) {
  const Start& start = starts_.at(key);
  const wire::ActorSpec& spec = start.message.spec;
  Job* job = parts_.jobs.find(spec.job);
  if (!job) return failed(key, make_record(ErrorCode::kRuntimeEnv, "its job is not known here"), true);
  if (spec.isolation == Isolation::kLight) return place_light(key, *job);
  const Workers::Found found = parts_.workers.find_or_fork(*job, sched::worker_kind(job->id, spec.env, start.gpu_ids));
  if (!found.process) return no_process(key, job->id);
  found.process->actor = key;
  if (found.idle) construct_in(*found.process, key);
}

void ActorStarts::place_light(const ActorKey& key, Job& job) {
  NodeProcess* best = nullptr;
  std::size_t fewest = 0;
  bool starting = false;
  for (auto& [serial, process] : parts_.table.all()) {
    if (process->job != job.id || !process->light_host) continue;
    starting |= process->state == NodeProcess::State::kStarting;
    if (process->state != NodeProcess::State::kAlive) continue;
    const std::size_t count = hosts_.count(process->id);
    if (!best || count < fewest) best = process.get(), fewest = count;
  }
  if (best) return construct_in(*best, key);
  if (starting) return;  // hosts_settled comes back to it
  const Workers::Found found = parts_.workers.find_or_fork(job, sched::worker_kind(job.id, {}));
  if (!found.process) return no_process(key, job.id);
  found.process->light_host = true;
  if (found.idle) construct_in(*found.process, key);
}

void ActorStarts::construct_in(NodeProcess& process, const ActorKey& key) {
  auto node = starts_.extract(key);
  if (!node) return;
  wire::StartActor& message = node.mapped().message;
  const wire::ActorSpec& spec = message.spec;
  if (spec.isolation == Isolation::kLight) {
    hosts_.add(key, process.id);
  } else {
    process.title = spec.class_name;
    parts_.logs.set_prefix(process.id, "(" + (spec.name.empty() ? spec.class_name : spec.name) +
                                           " pid=" + std::to_string(process.pid) + ", node=" + node_id_ + ")");
  }
  parts_.messenger.notice(kHead, wire::Method::kActorPlaced,
                          wire::ActorStarted{spec.id, message.restarts, process.id, process.pid});
  parts_.messenger.notice(process.id, wire::Method::kConstructActor,
                          wire::ConstructActor{std::move(message.spec), message.restarts, std::move(message.checkpoint),
                                               std::move(node.mapped().gpu_ids)});
}

void ActorStarts::process_ready(NodeProcess& process) {
  if (process.actor) construct_in(process, *process.actor);
}

bool ActorStarts::process_failed(NodeProcess& process, const ErrorRecord& error, bool retry_elsewhere) {
  if (!process.actor || !starts_.contains(*process.actor)) return false;
  const ActorKey key = *process.actor;
  process.actor.reset();
  failed(key, error, retry_elsewhere);
  return true;
}

void ActorStarts::hosts_settled(JobId job) {
  std::vector<ActorKey> placeable;
  for (const auto& [key, start] : starts_) {
    const wire::ActorSpec& spec = start.message.spec;
    if (spec.isolation == Isolation::kLight && spec.job == job && start.admitted) placeable.push_back(key);
  }
  for (const ActorKey& key : placeable) place(key);
}

void ActorStarts::no_process(const ActorKey& key, JobId job) {
  if (std::optional<ErrorRecord> why = parts_.workers.hopeless(job)) return failed(key, std::move(*why), false);
  std::string why = "no worker can be started on node " + node_id_;
  if (const Job* known = parts_.jobs.find(job); known && !known->executable)
    why += ": the program " + known->image.executable + " cannot be opened or started there";
  failed(key, make_record(ErrorCode::kRuntimeEnv, std::move(why)), true);
}

void ActorStarts::failed(const ActorKey& key, ErrorRecord error, bool retry_elsewhere) {
  starts_.erase(key);
  give_back(key);
  write_log(LogLevel::kInfo, "actor {} was not started here: {}", to_string(key.first), error.message);
  parts_.messenger.notice(kHead, wire::Method::kStartActorFailed,
                          wire::StartActorFailed{key.first, key.second, std::move(error), retry_elsewhere});
}

void ActorStarts::give_back(const ActorKey& key) {
  parts_.leases.queue().actor_gone(key.first, key.second, parts_.loop.now());
}

void ActorStarts::exited(ProcessId from, const wire::ActorExited& exited) {
  const ActorKey key{exited.actor, exited.restarts};
  if (hosts_.remove(key)) give_back(key);
  NodeProcess* process = parts_.table.find(from);
  if (!process || process->actor != key) return;
  process->expected = true;
  process->cause = exited.cause;
  process->reason = exited.message;
}

void ActorStarts::process_died(const NodeProcess& gone) {
  if (gone.actor) give_back(*gone.actor);
  for (const ActorKey& key : hosts_.remove_host(gone.id)) give_back(key);
}

NodeProcess* ActorStarts::dropped(ActorId actor) {
  for (auto it = starts_.lower_bound({actor, 0}); it != starts_.end() && it->first.first == actor;) {
    give_back(it->first);
    it = starts_.erase(it);
  }
  for (auto& [serial, process] : parts_.table.all())
    if (process->actor && process->actor->first == actor) return process.get();
  return nullptr;
}

void ActorStarts::job_ended(JobId job, const std::set<ActorId>& kept) {
  std::vector<ActorKey> over;
  for (const auto& [key, start] : starts_)
    if (start.message.spec.job == job && !kept.contains(key.first)) over.push_back(key);
  for (const ActorKey& key : over) {
    const auto gone = starts_.extract(key);
    // A process of its own gives back what it was admitted with, at its end.
    const Start& start = gone.mapped();
    if (!start.admitted || start.message.spec.isolation == Isolation::kLight) give_back(key);
  }
}

}  // namespace troupe::node

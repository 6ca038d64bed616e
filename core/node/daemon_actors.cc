// Actors: the head says which actor to start here; the daemon finds resources and a process, and hands the construction over.
//
//   kStartActor --> waits for resources --admitted--> waits for a process --ready--> kActorPlaced to the head, kConstructActor
//        `-- no room in time, no image, no process --> kStartActorFailed
#include "core/base/log.h"
#include "core/node/daemon.h"

namespace troupe::node {

void Daemon::start_actor(wire::StartActor message) {
  ++starts_seen_;
  const ActorKey key{message.spec.id, message.restarts};
  const JobId job = message.spec.job;
  const ProcessId creator = message.spec.creator;
  const sched::ResourceSet need = sched::ResourceSet::from(message.spec.resources, sched::kActorCpus);
  starts_[key] = Start{std::move(message), {}, false};
  with_job(job, creator, [this, key, job, need](Job* known) {
    if (!starts_.contains(key)) return;
    if (!known) return start_failed(key, make_record(ErrorCode::kRuntimeEnv, "the program of job " + std::to_string(job) + " is not known on node " + node_id_), true);
    leases_->admit_actor(key.first, key.second, job, need, loop_->now());
  });
  apply_effects();
}

void Daemon::actor_admitted(const ActorKey& key, const std::vector<int>& gpu_ids) {
  auto it = starts_.find(key);
  if (it == starts_.end()) return leases_->actor_gone(key.first, key.second, loop_->now());
  it->second.gpu_ids = gpu_ids;
  it->second.admitted = true;
  place_actor(key);
}

void Daemon::place_actor(const ActorKey& key) {
  const Start& start = starts_.at(key);
  const wire::ActorSpec& spec = start.message.spec;
  Job* job = job_of(spec.job);
  if (!job) return start_failed(key, make_record(ErrorCode::kRuntimeEnv, "its job is not known here"), true);
  if (spec.isolation == Isolation::kLight) {
    NodeProcess* best = nullptr;
    std::size_t fewest = ~std::size_t{0};
    bool starting = false;
    for (auto& [serial, process] : table_->all()) {
      if (process->job != job->id || !process->light_host || process->state == NodeProcess::State::kDying) continue;
      starting |= process->state == NodeProcess::State::kStarting;
      std::size_t count = 0;
      for (const auto& [actor, host] : light_actors_) count += host == process->id;
      if (process->state == NodeProcess::State::kAlive && count < fewest) best = process.get(), fewest = count;
    }
    if (best) return construct_in(*best, key);
    if (starting) return;  // answer_light_hosts comes back to it
    const sched::WorkerKind plain = sched::worker_kind(job->id, {});
    std::optional<ProcessId> idle = leases_->take_worker(plain);
    NodeProcess* process = idle ? table_->find_alive(*idle) : fork_worker(*job, plain);
    if (!process) return start_failed(key, make_record(ErrorCode::kRuntimeEnv, "no process could be started"), true);
    process->light_host = true;
    if (idle) construct_in(*process, key);
    return;
  }
  const sched::WorkerKind kind = sched::worker_kind(job->id, spec.env, start.gpu_ids);
  std::optional<ProcessId> idle = leases_->take_worker(kind);
  NodeProcess* process = idle ? table_->find_alive(*idle) : fork_worker(*job, kind);
  if (!process) return start_failed(key, make_record(ErrorCode::kRuntimeEnv, "the program's launcher does not start on node " + node_id_), true);
  process->actor = key;
  if (idle) construct_in(*process, key);
}

void Daemon::construct_in(NodeProcess& process, const ActorKey& key) {
  auto node = starts_.extract(key);
  if (!node) return;
  wire::StartActor& message = node.mapped().message;
  const wire::ActorSpec& spec = message.spec;
  if (spec.isolation == Isolation::kLight) {
    light_actors_[key] = process.id;
  } else {
    process.title = spec.class_name;
    logs_->set_prefix(process.id, "(" + (spec.name.empty() ? spec.class_name : spec.name) + " pid=" + std::to_string(process.pid) + ", node=" + node_id_ + ")");
  }
  mail_->notice(kHead, wire::Method::kActorPlaced, wire::ActorStarted{spec.id, message.restarts, process.id, process.pid});
  mail_->notice(process.id, wire::Method::kConstructActor,
                wire::ConstructActor{std::move(message.spec), message.restarts, std::move(message.checkpoint), std::move(node.mapped().gpu_ids)});
}

void Daemon::start_failed(const ActorKey& key, ErrorRecord error, bool retry_elsewhere) {
  starts_.erase(key);
  leases_->actor_gone(key.first, key.second, loop_->now());
  write_log(LogLevel::kInfo, "actor {} was not started here: {}", to_string(key.first), error.message);
  mail_->notice(kHead, wire::Method::kStartActorFailed, wire::StartActorFailed{key.first, key.second, std::move(error), retry_elsewhere});
}

void Daemon::peek_actor_exit(const net::FrameHeader& header, ByteView payload) {
  // The one frame for others that the daemon reads: it frees what the actor held, and makes the end of its process an expected one.
  if (header.kind != static_cast<std::uint8_t>(wire::FrameKind::kNotice) || header.arg0 != static_cast<std::uint64_t>(wire::Method::kActorExited)) return;
  Result<wire::ActorExited> exited = wire::decode_message<wire::ActorExited>(payload);
  if (!exited.ok()) return;
  const ActorKey key{exited->actor, exited->restarts};
  if (light_actors_.erase(key) > 0) leases_->actor_gone(key.first, key.second, loop_->now());
  if (NodeProcess* process = table_->find(header.source); process && process->actor == key) {
    process->expected = true;
    process->cause = exited->cause;
    process->reason = exited->message;
  }
}

}  // namespace troupe::node

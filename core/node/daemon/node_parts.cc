#include "core/node/daemon/node_parts.h"

#include <signal.h>
#include <sys/epoll.h>

#include "core/base/log.h"

namespace troupe::node {
namespace {

constexpr int kDrainBudget = 512;

sched::LeaseQueueOptions lease_options(const DaemonConfig& config, const wire::RegisterNodeReply& self) {
  sched::LeaseQueueOptions options;
  options.node = self.node;
  options.node_id = self.node_id;
  options.total = sched::ResourceSet::from_map(config.resources);
  options.labels = config.labels;
  options.max_suspended_workers = config.max_suspended_workers;
  return options;
}

double cpus_of(const DaemonConfig& config) {
  auto it = config.resources.find("CPU");
  return it == config.resources.end() ? 0 : it->second;
}

WorkerHome home_of(const LocalNode* local) { return local ? WorkerHome::kThreads : WorkerHome::kProcesses; }

}  // namespace

Result<std::unique_ptr<NodeParts>> NodeParts::create(Outer outer, const wire::RegisterNodeReply& reply,
                                                     const std::string& session_name) {
  Ground ground;
  ground.table = std::make_unique<ProcessTable>(reply.node);
  Result<std::unique_ptr<net::Endpoint>> endpoint =
      net::Endpoint::create({.self = daemon_of(reply.node), .grace = std::chrono::nanoseconds(0)});
  if (!endpoint.ok()) return endpoint.error_ptr();
  ground.endpoint = std::move(*endpoint);
  ground.mail = std::make_unique<Mail>(outer.loop, *ground.endpoint, *ground.table, outer.links);
  Result<std::unique_ptr<StoreService>> store =
      StoreService::create(outer.loop, *ground.mail, {reply.node, outer.config.object_store_memory});
  if (!store.ok()) return store.error_ptr();
  ground.store = std::move(*store);
  std::unique_ptr<NodeParts> parts(new NodeParts(std::move(outer), std::move(ground), reply, session_name));
  parts->wire();
  return parts;
}

NodeParts::NodeParts(Outer outer, Ground ground, const wire::RegisterNodeReply& reply, const std::string& session_name)
    : outer_(std::move(outer)),
      node_id_(reply.node_id),
      ground_(std::move(ground)),
      table_(*ground_.table),
      endpoint_(*ground_.endpoint),
      mail_(*ground_.mail),
      store_(*ground_.store),
      keeper_(
          reply.node, mail_,
          {[this](ProcessId holder, store::BufferId id) { return store_.hold_for(holder, id); },
           [this](ProcessId holder, store::BufferId id) { store_.release_for(holder, id); },
           [this](const wire::BufferDesc& buffer, Keeper::Brought done) { store_.bring(buffer, std::move(done)); }}),
      logs_(outer_.loop, outer_.config.session_dir + "/logs",
            [this](ProcessId id, wire::LogLines lines) {
              const NodeProcess* process = table_.find(id);
              const Job* job = process ? jobs_.find(process->job) : nullptr;
              if (job && !job->ended) send_log_lines(*job, std::move(lines));
            }),
      jobs_(mail_),
      leases_(outer_.loop, mail_, lease_options(outer_.config, reply)),
      forwarded_({outer_.loop, table_, mail_, jobs_, leases_},
                 [this](std::uint32_t node) { return outer_.links.is_dead(node); }),
      strays_(outer_.loop, session_name + "/" + outer_.config.node_name + "/"),
      ends_(outer_.loop, table_, leases_.queue(), home_of(outer_.local), [this](ProcessId id) { deaths_.finish(id); }),
      launchers_(
          outer_.loop, jobs_,
          {session_name, outer_.config.session_dir, outer_.config.node_name, reply.node_id, reply.node}, outer_.local,
          {[this](const wire::Forked& forked) { workers_.on_forked(forked); },
           [this](const wire::Exited& exited) {
             const ProcessId id{table_.node(), exited.serial};
             if (NodeProcess* process = table_.find(id)) ends_.exited(*process, exited.wait_status);
             else deaths_.ended_late(id);
           },
           [this](std::uint32_t id, JobId job, const std::string& tail) { workers_.on_launcher_gone(id, job, tail); }}),
      workers_({outer_.loop, table_, mail_, jobs_, leases_, launchers_, ends_, logs_}, cpus_of(outer_.config),
               home_of(outer_.local), node_id_,
               {[this](NodeProcess& process) { admission_.watch(process); },
                [this](NodeProcess& process) {
                  if (process.light_host) light_hosts_.changed(process.job);
                  else starts_.process_ready(process);
                },
                [this](NodeProcess& process, const ErrorRecord& error, bool environment) {
                  actor_process_failed(process, error, environment);
                },
                [this](JobId job) { cleanup_.forget_if_over(job); }}),
      light_hosts_(table_, mail_, jobs_, workers_, cpus_of(outer_.config),
                   [this](JobId job) { starts_.hosts_settled(job); }),
      starts_({outer_.loop, table_, mail_, jobs_, leases_, workers_, logs_}, node_id_),
      admission_({outer_.loop, table_, mail_, endpoint_, store_, jobs_}, outer_.config, node_id_,
                 {[this](Job& job) { workers_.refill(job); }, [this](NodeProcess& process) { workers_.ready(process); },
                  [this](ProcessId id, const std::string& error, bool environment) {
                    workers_.failed(id, error, environment);
                  },
                  [this](NodeProcess& process) { ends_.closing(process); }}),
      deaths_({outer_.loop, table_, mail_, endpoint_, *this, store_, logs_, strays_}, home_of(outer_.local), node_id_,
              {[this](NodeProcess& process) { return before_death(process); },
               [this](const NodeProcess& process, const wire::ProcessDied& death) {
                 if (process.role == wire::Role::kDriver) cleanup_.driver_drained(process, death.reason);
               },
               [this](const NodeProcess& gone, const wire::ProcessDied& death, bool for_actor) {
                 after_death(gone, death, for_actor);
               },
               [this](ProcessId lost) { mail_.process_lost(lost); },
               [this](int workers) { outer_.local->warn_of_left_behind(workers); },
               [this] { return outer_.links.linked(); }}),
      cleanup_({outer_.loop, table_, mail_, jobs_, leases_, launchers_, workers_, light_hosts_, starts_, ends_},
               session_name, outer_.config.node_name,
               outer_.head_ends_with_us ? JobCleanup::Decider::kNobody : JobCleanup::Decider::kHead),
      pairs_(table_, mail_, outer_.config.ring_memory),
      ranks_(outer_.loop, table_),
      queries_(table_, mail_, leases_, store_, node_id_),
      output_(table_, mail_, logs_, [this] { return outer_.links.linked(); }),
      load_(outer_.loop, mail_, leases_, starts_, reply.node),
      dispatch_({outer_.loop, table_, outer_.links, mail_, jobs_, leases_, forwarded_, store_, keeper_, light_hosts_,
                 starts_, ends_, deaths_, cleanup_, pairs_, ranks_, queries_, output_, outer_.membership},
                node_id_, outer_.stop) {}

NodeParts::~NodeParts() { outer_.loop.forget(endpoint_.service_fd()); }

void NodeParts::wire() {
  leases_.set_actions(
      {[this](const sched::NeedWorkers& need) { workers_.needed(need); },
       [this](const sched::EndWorker& end) {
         if (NodeProcess* process = table_.find(end.worker)) ends_.kill(*process, {DeathCause::kKilled, end.reason});
       },
       [this](const sched::ActorAdmitted& actor) { starts_.admitted({actor.actor, actor.restarts}, actor.gpu_ids); },
       [this](const sched::ActorNotAdmitted& actor) {
         starts_.not_admitted({actor.actor, actor.restarts}, actor.reason);
       },
       [this](const sched::Warn& warn) {
         write_log(LogLevel::kWarn, "{}", warn.text);
         jobs_.warn(warn.job, warn.text);
       },
       [this] {
         workers_.plan_refills();
         load_.plan();
       }});
  store_.set_neighbours([this] { return outer_.links.linked(); });
  outer_.data_port.serve(store_, mail_);
  outer_.loop.watch(endpoint_.service_fd(), EPOLLIN, [this](std::uint32_t) { endpoint_.service(*this); });
  workers_.retire_idle();
}

bool NodeParts::drain() { return endpoint_.try_drain(*this, kDrainBudget) > 0; }

void NodeParts::on_broken(ProcessId peer, const ErrorPtr& why) {
  write_log(LogLevel::kError, "the ring of {} is broken: {}", to_string(peer), why->message());
  if (NodeProcess* process = table_.find(peer))
    ends_.kill(*process, {DeathCause::kCrashed, "it wrote nonsense into its ring: " + why->message()});
}

/// A driver that reads nothing costs no memory: its lines are counted, and the count goes before the next that it gets.
void NodeParts::send_log_lines(const Job& job, wire::LogLines lines) {
  if (mail_.is_clogged(job.driver)) {
    lines_not_shown_[job.driver] += lines.lines.size();
    return;
  }
  if (auto shed = lines_not_shown_.extract(job.driver))
    lines.lines.insert(lines.lines.begin(),
                       "... " + std::to_string(shed.mapped()) + " lines not shown: the driver did not read");
  mail_.notice(job.driver, wire::Method::kLogLines, lines);
}

// -------------------------------------------------------------------------------------------------------------- deaths

void NodeParts::child_ended(int pid, int wait_status) {
  if (NodeProcess* process = table_.find_pid(pid)) ends_.exited(*process, wait_status);
}

void NodeParts::actor_process_failed(NodeProcess& process, const ErrorRecord& error, bool environment) {
  if (process.light_host) light_hosts_.changed(process.job);
  else starts_.process_failed(process, error, !environment);
}

bool NodeParts::before_death(NodeProcess& process) {
  const std::string how = describe_wait_status(process.wait_status.value_or(-1));
  const std::optional<ErrorRecord> hopeless = workers_.hopeless(process.job);
  const ErrorRecord crashed = make_record(ErrorCode::kWorkerCrashed, "its process ended before it was ready: " + how);
  return starts_.process_failed(process, hopeless.value_or(crashed), !hopeless);
}

void NodeParts::after_death(const NodeProcess& gone, const wire::ProcessDied& death, bool for_actor) {
  ranks_.process_died(gone.id);
  leases_.queue().process_died(gone.id, outer_.loop.now());
  starts_.process_died(gone);
  if (gone.light_host) light_hosts_.changed(gone.job);
  workers_.died(gone, death, for_actor);
  if (gone.role == wire::Role::kDriver) cleanup_.driver_died(gone.job);
  leases_.apply();
  cleanup_.forget_if_over(gone.job);
  lines_not_shown_.erase(gone.id);
}

void NodeParts::node_died(const wire::NodeDied& death) {
  deaths_.tell_processes(wire::Method::kNodeDied, death);
  store_.node_gone(death.node);
  mail_.node_lost(death.node);
  leases_.queue().node_died(death.node, outer_.loop.now());
  leases_.apply();
}

void NodeParts::kill_all() {
  for (auto& [serial, process] : table_.all())
    if (process->role == wire::Role::kWorker || outer_.local) ends_.send_kill(*process);
  launchers_.kill_all();
}

}  // namespace troupe::node

// Frames for the daemon itself: from local processes, from other daemons and from the head; effects of the lease queue.
#include <algorithm>

#include "core/base/log.h"
#include "core/node/daemon.h"

namespace troupe::node {
namespace {

constexpr Duration kLoadEvery = std::chrono::milliseconds(10), kQueryWait = std::chrono::milliseconds(800), kRedialHead = std::chrono::seconds(30), kVerdictWait = std::chrono::seconds(3);

}  // namespace

void Daemon::on_message(ProcessId from, const net::FrameHeader& header, ByteView payload) { on_frame(from, header, payload); }

void Daemon::on_broken(ProcessId peer, const ErrorPtr& why) {
  NodeProcess* process = table_->find(peer);
  write_log(LogLevel::kError, "the ring of {} is broken: {}", to_string(peer), why->message());
  if (process) kill_process(*process, {DeathCause::kCrashed, "it wrote nonsense into its ring: " + why->message()});
}

void Daemon::on_frame(ProcessId from_ring, const net::FrameHeader& header, ByteView payload) {
  if (!mail_) return;
  if (header.destination == kHead && from_ring.node == table_->node()) peek_actor_exit(header, payload);
  if (mail_->route(from_ring, header, payload)) handle(header, payload);
}

void Daemon::handle(const net::FrameHeader& header, ByteView payload) {
  switch (static_cast<wire::FrameKind>(header.kind)) {
    case wire::FrameKind::kResponse: return mail_->on_response(header, payload);
    case wire::FrameKind::kRequest: return handle_request(header, payload);
    case wire::FrameKind::kNotice: return handle_notice(header, payload);
    default: write_log(LogLevel::kWarn, "a frame of kind {} from {} for the daemon", header.kind, to_string(header.source));
  }
}

template <class M>
void Daemon::with(const net::FrameHeader& header, ByteView payload, const std::function<void(M&)>& then) {
  Result<M> message = wire::decode_message<M>(payload);
  if (message.ok()) return then(*message);
  write_log(LogLevel::kWarn, "method {} from {}: {}", header.arg0, to_string(header.source), message.error().message());
  if (header.kind == static_cast<std::uint8_t>(wire::FrameKind::kRequest)) mail_->fail(header, message.error().record());
}

void Daemon::handle_request(const net::FrameHeader& header, ByteView payload) {
  switch (static_cast<wire::Method>(header.arg0)) {
    case wire::Method::kConnect: return with<wire::ConnectRequest>(header, payload, [&](auto& m) { connect_pair(header, m); });
    case wire::Method::kLightHost: return with<wire::LightHostRequest>(header, payload, [&](auto& m) { light_hosts(header, m); });
    case wire::Method::kStoreLease: return with<wire::StoreLeaseRequest>(header, payload, [&](auto& m) { store_->lease(header, m); });
    case wire::Method::kStoreAllocate: return with<wire::StoreAllocateRequest>(header, payload, [&](auto& m) { store_->allocate(header, m); });
    case wire::Method::kStoreFetch: return with<wire::StoreFetchRequest>(header, payload, [&](auto& m) { store_->fetch(header, m); });
    case wire::Method::kStoreHold: return with<wire::StoreHoldRequest>(header, payload, [&](auto& m) { store_->hold(header, m); });
    case wire::Method::kStoreUsage: return store_->usage(header);
    case wire::Method::kKillProcess: return with<wire::KillProcess>(header, payload, [&](auto& m) { kill_request(header, m); });
    case wire::Method::kQueryState: return with<wire::StateQuery>(header, payload, [&](auto& m) { query_state(header, m); });
    case wire::Method::kPing: return mail_->respond(header, wire::Empty{});
    case wire::Method::kRankDoor: return mail_->respond(header, hand_overs_.door());
    case wire::Method::kJobImage:
      return with<wire::JobImageRequest>(header, payload, [&](auto& m) {
        Job* job = job_of(m.job);
        if (!job || (job->ended && job->kept.empty())) return mail_->fail(header, make_record(ErrorCode::kNotFound, "job " + std::to_string(m.job) + " is not known on node " + node_id_));
        mail_->respond(header, wire::JobImageReply{job->id, job->driver, job->name_space, job->registry_digest, job->image});
      });
    default:
      mail_->fail(header, make_record(ErrorCode::kInvalidArgument, "the daemon has no method " + std::to_string(header.arg0)));
  }
}

void Daemon::handle_notice(const net::FrameHeader& header, ByteView payload) {
  const Loop::TimePoint now = loop_->now();
  switch (static_cast<wire::Method>(header.arg0)) {
    case wire::Method::kLeaseWanted:
      with<wire::LeaseWanted>(header, payload, [&](auto& m) {
        m.requester = header.source;
        m.hops = 0;
        leases_->wanted(m, now);
      });
      break;
    case wire::Method::kForwardLease:
      with<wire::LeaseWanted>(header, payload, [&](auto& m) {
        const wire::LeaseWanted wanted = m;
        with_job(wanted.lease_class.job, wanted.requester, [this, wanted](Job*) { leases_->wanted(wanted, loop_->now()); });
      });
      break;
    case wire::Method::kLeaseCounted: with<wire::LeaseCounted>(header, payload, [&](auto& m) { leases_->counted(m, now); }); break;
    case wire::Method::kLeaseReturned: with<wire::LeaseReturned>(header, payload, [&](auto& m) { leases_->returned(m.lease_id, now); }); break;
    case wire::Method::kWorkerBlocked: with<wire::WorkerBlocked>(header, payload, [&](auto& m) { leases_->worker_blocked(header.source, m.blocked, now); }); break;
    case wire::Method::kStoreFree: with<wire::StoreFree>(header, payload, [&](auto& m) { store_->free(header.source, m); }); break;
    case wire::Method::kStoreUnhold: with<wire::StoreHoldRequest>(header, payload, [&](auto& m) { store_->unhold(m); }); break;
    case wire::Method::kCopiesVoid: with<wire::StoreHoldRequest>(header, payload, [&](auto& m) { store_->copies_void(m); }); break;
    case wire::Method::kExpectRanks: with<wire::ExpectRanks>(header, payload, [&](auto& m) { expect_ranks(header.source, m); }); break;
    case wire::Method::kRankLeft: with<wire::RankLeft>(header, payload, [&](auto& m) { hand_overs_.left(header.source, m); }); break;
    case wire::Method::kProcessDiedAck: with<wire::ConnectRequest>(header, payload, [&](auto& m) { death_acked(m.peer, header.source); }); break;
    case wire::Method::kProcessDied: with<wire::ProcessDied>(header, payload, [&](auto& m) { on_remote_death(m); }); break;
    case wire::Method::kNodeDied: with<wire::NodeDied>(header, payload, [&](auto& m) { on_node_died(m); }); break;
    case wire::Method::kClusterView:
      with<wire::ClusterView>(header, payload, [&](auto& m) {
        links_->apply_view(m);
        leases_->view_delta(m, now);
      });
      break;
    case wire::Method::kJobFinished:
      with<wire::JobFinished>(header, payload, [&](auto& m) {
        NodeProcess* driver = table_->find(header.source);
        if (Job* job = driver ? job_of(driver->job) : nullptr; job && job->driver == header.source) job->exit_code = m.exit_code;
      });
      break;
    case wire::Method::kStartActor: with<wire::StartActor>(header, payload, [&](auto& m) { start_actor(std::move(m)); }); break;
    case wire::Method::kJobEnded: with<wire::JobEnded>(header, payload, [&](auto& m) { end_job(m); }); break;
    case wire::Method::kKillActorProcess:
      with<wire::KillProcess>(header, payload, [&](auto& m) {
        if (NodeProcess* process = table_->find(m.process)) kill_process(*process, {m.cause, m.reason});
      });
      break;
    case wire::Method::kShutdown: return stop("stopped by the head");
    default: write_log(LogLevel::kWarn, "method {} from {} for the daemon", header.arg0, to_string(header.source));
  }
  apply_effects();
}

void Daemon::kill_request(const net::FrameHeader& request, const wire::KillProcess& wanted) {
  if (wanted.process.node != table_->node()) {
    mail_->request(daemon_of(wanted.process.node), wire::Method::kKillProcess, wanted, std::chrono::seconds(5), [this, request](Result<Mail::Bytes> reply) {
      if (reply.ok()) mail_->respond(request, wire::Empty{});
      else mail_->fail(request, reply.error().record());
    });
    return;
  }
  NodeProcess* process = table_->find(wanted.process);
  if (process && process->role == wire::Role::kWorker) kill_process(*process, {wanted.cause, wanted.reason});
  mail_->respond(request, wire::Empty{});  // a dead one is what was asked for
}

// -------------------------------------------------------------------------------------------------------------- effects

void Daemon::apply_effects() {
  for (std::vector<sched::LeaseEffect> effects = leases_->take_effects(); !effects.empty(); effects = leases_->take_effects()) {
    for (const sched::LeaseEffect& effect : effects) {
      if (const auto* granted = std::get_if<sched::Granted>(&effect)) mail_->notice(granted->requester, wire::Method::kLeaseGranted, granted->lease);
      else if (const auto* refused = std::get_if<sched::Refused>(&effect)) mail_->notice(refused->requester, wire::Method::kLeaseRefused, refused->refusal);
      else if (const auto* need = std::get_if<sched::NeedWorkers>(&effect)) need_workers(*need);
      else if (const auto* forward = std::get_if<sched::Forward>(&effect)) mail_->notice(daemon_of(forward->node), wire::Method::kForwardLease, forward->wanted);
      else if (const auto* counted = std::get_if<sched::CountAtOrigin>(&effect)) mail_->notice(daemon_of(counted->node), wire::Method::kLeaseCounted, counted->counted);
      else if (const auto* end = std::get_if<sched::EndWorker>(&effect)) {
        if (NodeProcess* process = table_->find(end->worker)) kill_process(*process, {DeathCause::kKilled, end->reason});
      } else if (const auto* warn = std::get_if<sched::Warn>(&effect)) {
        write_log(LogLevel::kWarn, "{}", warn->text);
        if (Job* job = job_of(warn->job); job && !job->ended) mail_->notice(job->driver, wire::Method::kWarning, wire::WarningText{warn->text});
      } else if (const auto* admitted = std::get_if<sched::ActorAdmitted>(&effect)) {
        actor_admitted({admitted->actor, admitted->restarts}, admitted->gpu_ids);
      } else if (const auto* denied = std::get_if<sched::ActorNotAdmitted>(&effect)) {
        start_failed({denied->actor, denied->restarts}, make_record(ErrorCode::kInfeasible, denied->reason), true);
      }
    }
  }
  housekeeping();
}

void Daemon::housekeeping() {
  const std::optional<sched::TimePoint> next = leases_->next_deadline();
  if (next && (!lease_timer_ || *next < lease_timer_at_)) {
    if (lease_timer_) loop_->cancel(*lease_timer_);
    lease_timer_at_ = *next;
    lease_timer_ = loop_->at(*next, [this] {
      lease_timer_.reset();
      leases_->tick(loop_->now());
      apply_effects();
    });
  }
  for (auto& [id, job] : jobs_) {
    if (job.ended || job.refill_planned || job.launcher == 0) continue;
    if (leases_->idle_count(sched::worker_kind(id, {})) > 0 || job.stock_starting > 0) continue;
    job.refill_planned = true;  // in the background: those who wait for a fork of their own come first
    loop_->after(std::chrono::milliseconds(20), [this, job_id = id] {
      Job* again = job_of(job_id);
      if (!again) return;
      again->refill_planned = false;
      refill_stock(*again);
    });
  }
  if (load_planned_) return;
  const std::map<std::string, double> available = leases_->account().available().to_map();
  if (available == last_available_ && leases_->pending() == last_pending_ && starts_seen_ == last_starts_) return;
  load_planned_ = true;
  loop_->after(kLoadEvery, [this] {
    load_planned_ = false;
    send_load();
  });
}

void Daemon::send_load() {
  last_available_ = leases_->account().available().to_map();
  last_pending_ = leases_->pending();
  last_starts_ = starts_seen_;
  mail_->notice(kHead, wire::Method::kNodeLoad, wire::NodeLoad{table_->node(), ++load_version_, last_available_, last_pending_, starts_seen_});
}

// ---------------------------------------------------------------------------------------------------------------- state

void Daemon::query_state(const net::FrameHeader& request, const wire::StateQuery& query) {
  if (query.kind == wire::StateKind::kWorkers) {
    wire::StateReply reply;
    for (auto& [serial, process] : table_->all()) {
      if (process->role != wire::Role::kWorker || (query.job != 0 && process->job != query.job)) continue;
      std::string state = leases_->worker_state(process->id);
      if (process->state == NodeProcess::State::kStarting) state = "STARTING";
      else if (process->state == NodeProcess::State::kDying) state = "DYING";
      else if (process->actor || process->light_host) state = "ACTOR";
      else if (state.empty()) state = "RETIRING";
      reply.rows.push_back({{"worker_id", to_string(process->id)}, {"node_id", node_id_}, {"state", state}, {"pid", std::to_string(process->pid)}});
    }
    return mail_->respond(request, reply);
  }
  struct Gather { wire::StateReply reply; int open = 0; };
  auto gather = std::make_shared<Gather>();
  std::vector<ProcessId> asked;
  for (auto& [serial, process] : table_->all())
    if (process->state == NodeProcess::State::kAlive && process->role != wire::Role::kTool && (query.job == 0 || process->job == query.job))
      asked.push_back(process->id);
  gather->open = static_cast<int>(asked.size());
  if (asked.empty()) return mail_->respond(request, gather->reply);
  for (ProcessId id : asked) {
    mail_->request(id, wire::Method::kQueryState, query, kQueryWait, [this, gather, request, id, query](Result<Mail::Bytes> bytes) {
      Result<wire::StateReply> part = bytes.ok() ? wire::decode_message<wire::StateReply>(*bytes) : Result<wire::StateReply>(bytes.error_ptr());
      if (part.ok()) {
        std::move(part->rows.begin(), part->rows.end(), std::back_inserter(gather->reply.rows));
        std::move(part->warnings.begin(), part->warnings.end(), std::back_inserter(gather->reply.warnings));
      } else if (table_->find_alive(id)) {
        gather->reply.warnings.push_back("process " + to_string(id) + " of node " + node_id_ + " did not answer");
      }
      if (--gather->open > 0) return;
      if (query.limit >= 0 && gather->reply.rows.size() > static_cast<std::size_t>(query.limit)) gather->reply.rows.resize(static_cast<std::size_t>(query.limit));
      mail_->respond(request, gather->reply);
    });
  }
}

// ---------------------------------------------------------------------------------------------------------------- links

void Daemon::link_down(std::uint32_t node, const std::string& why) {
  if (stopping_) return;
  if (node != 0) {
    if (why.empty()) return;  // in order: the node ends, and the head says so
    // Frames may be lost. The head's verdict comes first; without one the node is as good as dead for us: nothing may hang.
    loop_->after(kVerdictWait, [this, node, why] {
      if (!links_->is_dead(node)) on_node_died({node, "", "the link to it was lost: " + why});
    });
    return;
  }
  if (!table_) {
    report_ready("the head is not to be reached: " + why);
    return stop(why);
  }
  write_log(LogLevel::kWarn, "the link to the head is lost: {}", why);
  if (owns_head_ && config_.embedded) {
    const wire::NodeDied death{0, "", "the head of the embedded cluster died: " + why};
    for (auto& [serial, process] : table_->all())
      if (process->state == NodeProcess::State::kAlive) mail_->notice(process->id, wire::Method::kNodeDied, death);
    loop_->after(std::chrono::milliseconds(100), [this] { stop("the head died"); });
    return;
  }
  if (std::exchange(head_lost_, true)) return stop("the head did not come back: " + why);
  if (Status status = links_->dial_head(config_.head_address, kRedialHead); !status.ok()) stop(status.error().message());
}

}  // namespace troupe::node

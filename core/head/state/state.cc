#include "core/head/state/state.h"

#include <algorithm>

#include "core/wire/rows.h"

namespace troupe::head {
namespace {

std::string exit_text(const wire::ProcessDied& died) {
  return died.reason.empty() ? "its driver died" : "its driver " + died.reason;
}

}  // namespace

State::State(StateOptions options)
    : random_(options.seed),
      membership_(std::move(options.membership)),
      liveness_(membership_),
      actors_({.membership = membership_, .jobs = jobs_, .liveness = liveness_, .random = random_}),
      listing_([this](const wire::StateQuery& query) {
        return query.kind == wire::StateKind::kActors ? actors_.rows(query.job) : wire::StateReply{};
      }) {}

void State::apply(Time now, Event event, Effects& effects) {
  Turn turn{now, effects};
  if (auto* frame = std::get_if<Frame>(&event)) on_frame(turn, *frame);
  else if (auto* closed = std::get_if<LinkClosed>(&event)) membership_.on_link_closed(turn, closed->link);
  else if (auto* gone = std::get_if<NobodyListens>(&event)) membership_.on_nobody_listens(turn, gone->node);
  else if (auto* broken = std::get_if<ProbeBroken>(&event)) membership_.on_probe_broken(turn, broken->node);
  on_time(turn);
}

std::optional<Time> State::next_deadline() const {
  std::optional<Time> next = membership_.next_deadline();
  for (std::optional<Time> at : {actors_.next_deadline(), listing_.next_deadline()}) {
    if (at && (!next || *at < *next)) next = at;
  }
  return next;
}

void State::on_time(Turn& turn) {
  for (const Membership::Verdict& verdict : membership_.judge(turn)) {
    membership_.declare_dead(turn, verdict.node, verdict.reason);
    listing_.on_node_died(turn, verdict.node);
    metrics_.node_died(verdict.node);
    actors_.on_node_died(turn, verdict.node, verdict.reason);
    for (JobId job : jobs_.with_driver_on(verdict.node))
      end_job(turn, job, true, "the node of its driver died: " + verdict.reason);
  }
  actors_.on_time(turn);
  listing_.on_time(turn);
  membership_.push(turn);
}

void State::on_frame(Turn& turn, Frame& frame) {
  const Caller caller{frame.source, frame.token};
  if (frame.kind == wire::FrameKind::kRequest && frame.method == wire::Method::kRegisterNode) {
    auto* request = std::get_if<wire::RegisterNode>(&frame.body);
    if (!request)
      turn.effects.respond(caller.process, caller.token,
                           error_record(ErrorCode::kSerialization, "unreadable registration"), frame.link);
    else if (membership_.register_node(turn, frame.link, caller, *request, random_)) actors_.on_node_joined(turn);
    return;
  }
  if (is_tool(frame.source)) return on_tool(turn, frame);
  if (!membership_.heard(frame.source.node, frame.link) || !liveness_.alive(frame.source)) {
    if (frame.kind != wire::FrameKind::kRequest) return;
    turn.effects.respond(caller.process, caller.token,
                         error_record(ErrorCode::kUnauthenticated, "process " + to_string(frame.source) +
                                                                       " is not of a living node of this cluster"),
                         frame.link);
    return;
  }
  if (frame.kind == wire::FrameKind::kRequest) on_request(turn, frame);
  else if (frame.kind == wire::FrameKind::kResponse) on_response(turn, frame);
  else if (frame.kind == wire::FrameKind::kNotice) on_notice(turn, frame);
}

/// HS-4
void State::on_tool(Turn& turn, Frame& frame) {
  using wire::Method;
  if (frame.kind != wire::FrameKind::kRequest) return;
  switch (frame.method) {
    case Method::kPing:
    case Method::kClusterInfo:
    case Method::kListState:
    case Method::kKvGet:
    case Method::kKvKeys: return on_request(turn, frame);
    default:
      turn.effects.respond(frame.source, frame.token,
                           error_record(ErrorCode::kUnauthenticated, "a tool may only read"));
  }
}

void State::on_response(Turn& turn, Frame& frame) {
  if (membership_.on_pong(frame.source.node, frame.token)) return;
  if (!actors_.on_answer(turn, frame.source.node, frame.token, frame.body))
    listing_.on_answer(turn, frame.source.node, frame.token, std::move(frame.body));
}

// ------------------------------------------------------------------------------------------------------------ requests

void State::on_request(Turn& turn, Frame& frame) {
  using wire::Method;
  const Caller caller{frame.source, frame.token};
  if (on_actor_request(turn, caller, frame) || on_kv_request(turn, caller, frame)) return;
  auto answer = [&](Message body) { turn.effects.respond(caller.process, caller.token, std::move(body)); };
  if (frame.method == Method::kPing) return answer(wire::Empty{});
  if (frame.method == Method::kClusterInfo)
    return answer(wire::ClusterInfo{membership_.infos(), membership_.options().cluster_id});
  if (auto* query = std::get_if<wire::StateQuery>(&frame.body); query && frame.method == Method::kListState)
    return list(turn, caller, std::move(*query));
  if (auto* request = std::get_if<wire::RegisterJob>(&frame.body); request && frame.method == Method::kRegisterJob) {
    if (!liveness_.alive(request->driver))
      return answer(error_record(ErrorCode::kInvalidArgument, "the job's driver is dead already"));
    const Job& job = jobs_.add(*request, random_);
    turn.effects.log("job " + std::to_string(job.id) + " registered: driver pid " + std::to_string(job.driver_pid));
    return answer(wire::RegisterJobReply{job.id, job.name_space});
  }
  answer(error_record(ErrorCode::kSerialization, "the head cannot read this request (method " +
                                                     std::to_string(static_cast<int>(frame.method)) + ")"));
}

bool State::on_actor_request(Turn& turn, Caller caller, Frame& frame) {
  using wire::Method;
  if (auto* spec = std::get_if<wire::ActorSpec>(&frame.body); spec && frame.method == Method::kCreateActor) {
    actors_.create(turn, caller, std::move(*spec));
  } else if (auto* which = std::get_if<wire::ResolveActor>(&frame.body);
             which && frame.method == Method::kResolveActor) {
    actors_.resolve(turn, caller, which->actor);
  } else if (which && frame.method == Method::kMonitorActor) {
    actors_.monitor(turn, caller, *which);
  } else if (auto* named = std::get_if<wire::NamedActor>(&frame.body);
             named && frame.method == Method::kGetNamedActor) {
    actors_.get_named(turn, caller, std::move(*named));
  } else if (auto* kill = std::get_if<wire::KillActor>(&frame.body); kill && frame.method == Method::kKillActor) {
    actors_.kill(turn, caller, *kill);
  } else if (auto* counts = std::get_if<wire::HandleCounts>(&frame.body);
             counts && frame.method == Method::kHandleCounts) {
    ProcessId holder = counts->holder == ProcessId{} ? frame.source : counts->holder;
    if (liveness_.alive(holder)) actors_.handle_counts(turn, holder, *counts);
    turn.effects.respond(caller.process, caller.token, wire::Empty{});
  } else {
    return false;
  }
  return true;
}

bool State::on_kv_request(Turn& turn, Caller caller, Frame& frame) {
  using wire::Method;
  auto answer = [&](Message body) { turn.effects.respond(caller.process, caller.token, std::move(body)); return true; };
  if (auto* entry = std::get_if<wire::KvEntry>(&frame.body); entry && frame.method == Method::kKvPut)
    return answer(kv_.put(std::move(*entry)));
  if (auto* wanted = std::get_if<wire::KvSwap>(&frame.body); wanted && frame.method == Method::kKvSwap)
    return answer(kv_.swap(std::move(*wanted)));
  auto* key = std::get_if<wire::KvKey>(&frame.body);
  if (!key) return false;
  if (frame.method == Method::kKvGet) return answer(kv_.get(key->key));
  if (frame.method == Method::kKvDel) return answer(kv_.del(key->key));
  if (frame.method == Method::kKvKeys) return answer(kv_.keys(key->key));
  return false;
}

void State::list(Turn& turn, Caller caller, wire::StateQuery query) {
  if (auto problem = query_problem(query)) {
    turn.effects.respond(caller.process, caller.token, error_record(ErrorCode::kInvalidArgument, *problem));
    return;
  }
  switch (query.kind) {
    case wire::StateKind::kActors:
    case wire::StateKind::kTasks:
    case wire::StateKind::kObjects:
    case wire::StateKind::kWorkers:
    case wire::StateKind::kStores:
      return listing_.ask(turn, caller, std::move(query), membership_.living());
    default: break;
  }
  wire::StateReply reply = rows(query.kind);
  wire::select_rows(query, reply);
  turn.effects.respond(caller.process, caller.token, std::move(reply));
}

wire::StateReply State::rows(wire::StateKind kind) const {
  wire::StateReply reply;
  switch (kind) {
    case wire::StateKind::kNodes: reply.rows = node_rows(membership_); break;
    case wire::StateKind::kActors:
      if (actors_.living() <= wire::kRowsMax) {
        reply = actors_.rows(0);
        break;
      }
      reply.total = actors_.living();
      reply.warnings.push_back(std::to_string(reply.total) + " actors lived: too many to keep");
      return reply;
    case wire::StateKind::kJobs:
      for (const auto& [id, job] : jobs_.all()) {
        reply.rows.push_back({{"job_id", std::to_string(id)},
                              {"name_space", job.name_space},
                              {"state", job.state},
                              {"driver_pid", std::to_string(job.driver_pid)}});
      }
      break;
    case wire::StateKind::kMetrics: reply.rows = metrics_.rows(); break;
    case wire::StateKind::kPlacementGroups:  // none yet
    case wire::StateKind::kTasks:
    case wire::StateKind::kObjects:
    case wire::StateKind::kWorkers:
    case wire::StateKind::kStores: break;
  }
  reply.total = reply.rows.size();
  return reply;
}

// ------------------------------------------------------------------------------------------------------------- notices

void State::on_notice(Turn& turn, Frame& frame) {
  using wire::Method;
  // A report about a process is believed when it comes from that process, or from the daemon of its node.
  auto about = [&](ProcessId process) { return process == frame.source || daemon_of(process.node) == frame.source; };
  auto is = [&]<class T>(Method method, T*& body) {
    return frame.method == method && (body = std::get_if<T>(&frame.body)) != nullptr;
  };
  const bool from_daemon = frame.source.is_daemon();
  wire::ActorStarted* started;
  wire::ActorExited* exited;
  wire::LightActors* light;
  wire::Checkpoint* checkpoint;
  wire::ProcessDied* died;
  wire::NodeLoad* load;
  wire::LinkReport* link;
  wire::StartActorFailed* failed;
  wire::JobFinished* finished;
  wire::MetricsReport* points;
  if (is(Method::kActorStarted, started)) {
    if (about(started->process)) actors_.on_started(turn, *started);
  } else if (is(Method::kActorPlaced, started)) {
    if (from_daemon && about(started->process)) actors_.on_placed(turn, *started);
  } else if (is(Method::kActorExited, exited)) {
    if (about(exited->process)) actors_.on_exited(turn, *exited);
  } else if (is(Method::kLightActors, light)) {
    actors_.light(turn, *light);
  } else if (is(Method::kCheckpoint, checkpoint)) {
    actors_.on_checkpoint(turn, frame.source, std::move(*checkpoint));
  } else if (is(Method::kProcessDied, died)) {
    if (from_daemon && died->process.node == frame.source.node && died->process.serial != 0) process_died(turn, *died);
  } else if (is(Method::kNodeLoad, load)) {
    if (from_daemon && load->node == frame.source.node && membership_.on_load(turn, *load)) actors_.place_waiting(turn);
  } else if (is(Method::kLinkReport, link)) {
    if (from_daemon) membership_.on_link_report(turn, frame.source.node, *link);
  } else if (is(Method::kStartActorFailed, failed)) {
    if (from_daemon) actors_.on_start_failed(turn, frame.source, *failed);
  } else if (is(Method::kMetrics, points)) {
    if (about(points->process)) metrics_.report(turn, *points);
  } else if (is(Method::kJobFinished, finished)) {
    std::string reason =
        finished->reason.empty() ? "its driver returned " + std::to_string(finished->exit_code) : finished->reason;
    end_job(turn, finished->job, finished->exit_code != 0, reason);
  }
}

void State::process_died(Turn& turn, const wire::ProcessDied& died) {
  if (!liveness_.died(died.process)) return;
  const Job* job = jobs_.of_driver(died.process);
  metrics_.process_died(died.process);
  actors_.on_process_died(turn, died);
  if (job) end_job(turn, job->id, !died.expected, exit_text(died));
}

void State::end_job(Turn& turn, JobId id, bool failed, const std::string& reason) {
  const Job* job = jobs_.find(id);
  if (!job || !jobs_.end(id, failed)) return;
  wire::JobEnded ended = actors_.on_job_ended(turn, id, reason);
  for (std::uint32_t node : membership_.living()) turn.effects.notice(daemon_of(node), wire::Method::kJobEnded, ended);
  turn.effects.log("job " + std::to_string(id) + " ended: " + reason);
}

}  // namespace troupe::head

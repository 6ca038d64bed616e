// The node daemon's shell in the cores' world, as core/node has it: forks, pairs of rings, deaths and their news; the
// leases are the real queue's.
#include "tests/sim/cores.h"

namespace troupe::sim {

using namespace std::chrono_literals;

namespace {
constexpr Duration kRetireEvery = 100ms, kIdleKept = 50ms;  // of the daemon's 5 s: the world is busy for 3

TimePoint lease_time(Time now) { return TimePoint(now + 1h); }

store::BufferId buffer_id(const wire::BufferDesc& desc) { return {desc.node, desc.slot, desc.generation}; }

template <class M, class F> void with(ByteView payload, F&& use) {
  if (Result<M> message = wire::decode_message<M>(payload); message.ok()) use(*std::move(message));
}
}  // namespace

// ------------------------------------------------------------------------------------------------------ nodes and jobs

void CoreWorld::join_node() {
  auto node = std::make_unique<SimNode>();
  node->link = links_.size() + 1;
  node->slowness = random_.chance(0.2) ? 1 + 20 * random_.unit() : 1 + random_.unit();
  wire::RegisterNode request;
  request.info.resources = {{"CPU", double(1 + below(4))}};
  sched::LeaseQueueOptions options;
  options.total = sched::ResourceSet::from_map(request.info.resources);
  links_[node->link] = node.get();
  SimNode& kept = *node;
  joining_.push_back(std::move(node));
  apply_head(head::Frame{kept.link, wire::FrameKind::kRequest, {}, 1, wire::Method::kRegisterNode, false, request});
  options.node = kept.number;
  if (shares_) options.max_suspended_workers = 1 + int(below(2));
  kept.leases = std::make_unique<sched::LeaseQueue>(options);
  kept.retirement = std::make_unique<node::Retirement>(*kept.leases);
  if (retires_) plan_retiring(kept);
  if (memory_) {
    kept.memory = std::make_unique<NodeMemory>(queue_, kept.number);
    plan_stops(kept);
  }
}

void CoreWorld::start_driver(SimNode& node) {
  SimProcess& driver = fork(node, 0, wire::Role::kDriver);
  const std::uint64_t token = ++node.next_token;
  node.registering[token] = driver.id;
  net::FrameHeader header;
  header.kind = std::uint8_t(wire::FrameKind::kRequest);
  header.token = token;
  header.arg0 = std::uint64_t(wire::Method::kRegisterJob);
  header.source = daemon_of(node.number);
  header.destination = kHead;
  post(header.source, header, wire::encode_message(wire::RegisterJob{driver.id, 1, "", {}, ""}));
}

SimProcess& CoreWorld::fork(SimNode& node, JobId job, wire::Role role, sched::WorkerKind kind) {
  const std::uint32_t serial = node.next_serial++;
  auto& place = node.processes[serial];
  place = std::make_unique<SimProcess>(*this, ProcessId{node.number, serial}, role, job);
  place->kind = std::move(kind);
  if (role == wire::Role::kWorker)
    queue_.after(1ms + 4 * delay(node.number), [this, id = place->id] {
      SimProcess* process = find(id);
      if (process && !process->ready) ready(*node_at(id.node), *process);
    });
  return *place;
}

void CoreWorld::ready(SimNode& node, SimProcess& process) {
  process.ready = true;
  wire::Welcome welcome;
  welcome.self = process.id;
  welcome.node_id = node.id;
  welcome.worker_id = to_string(process.id);
  welcome.job = process.job;
  welcome.name_space = "sim";
  if (auto at = node.drivers.find(process.job); at != node.drivers.end()) welcome.driver = at->second;
  welcome.call_memory = ~std::uint64_t(0);
  worker::Identity identity{std::move(welcome), process.role == wire::Role::kDriver, false};
  process.core = std::make_unique<worker::Core>(std::move(identity), worker::Surroundings{process, process, process},
                                                nullptr, process);
  if (node.memory) {
    process.memory = node.memory->attach(process.id);
    process.core->set_store(process.memory->client());
  }
  if (process.role != wire::Role::kWorker) return;
  if (process.light_host) {
    for (const auto& [key, start] : std::map(node.starts))
      if (start.message.spec.isolation == Isolation::kLight && start.message.spec.job == process.job)
        construct_in(node, process, key);
  } else if (process.actor) {
    construct_in(node, process, *process.actor);
  } else {
    node.leases->worker_ready(process.id, 1, process.kind, lease_time(queue_.now()));
  }
  apply_leases(node);
}

// ------------------------------------------------------------------------------------------------------------ messages

void CoreWorld::on_daemon(SimNode& node, const Frame& frame) {
  const net::FrameHeader& header = frame.header;
  switch (wire::FrameKind(header.kind)) {
    case wire::FrameKind::kRequest: return on_daemon_request(node, header, frame.payload);
    case wire::FrameKind::kNotice: return on_daemon_notice(node, header, frame.payload);
    default: break;
  }
  if (auto asked = node.retiring.find(header.token); asked != node.retiring.end() && asked->second == header.source) {
    node.retiring.erase(asked);
    return on_retire_answer(node, header.source, header.arg0 != 0);
  }
  if (header.source != kHead || header.arg0 != 0) return;
  if (!node.registered) {
    with<wire::RegisterNodeReply>(frame.payload, [&](auto reply) {
      node.registered = true;
      node.id = reply.node_id;
      plan_load(node);
      if (node.number == 1 || random_.chance(0.3)) start_driver(node);
    });
    return;
  }
  auto at = node.registering.find(header.token);
  if (at == node.registering.end()) return;
  with<wire::RegisterJobReply>(frame.payload, [&](auto reply) {
    // The driver comes to be with its job's number.
    auto& place = node.processes[at->second.serial];
    place = std::make_unique<SimProcess>(*this, at->second, wire::Role::kDriver, reply.job);
    node.drivers[reply.job] = at->second;
    ready(node, *place);
    say("driver " + to_string(place->id) + " of job " + std::to_string(reply.job));
  });
  node.registering.erase(at);
}

void CoreWorld::on_daemon_request(SimNode& node, const net::FrameHeader& header, ByteView payload) {
  const auto nothing = wire::encode_message(wire::Empty{});
  switch (wire::Method(header.arg0)) {
    case wire::Method::kPing: return respond(header, nothing);
    case wire::Method::kConnect:
      return with<wire::ConnectRequest>(payload, [&](auto m) { connect(node, header, m.peer); });
    case wire::Method::kLeaseRenew:
      return with<wire::LeaseRenew>(payload, [&](auto m) {
        const std::uint64_t number = node.leases->renew(m.lease_id, header.source, lease_time(queue_.now()));
        say("lease " + std::to_string(m.lease_id) + (number ? " goes on as " + std::to_string(number) : " is over"));
        respond(header, wire::encode_message(wire::LeaseRenewed{number}));
        apply_leases(node);
      });
    case wire::Method::kLightHost:
      return with<wire::LightHostRequest>(payload, [&](auto m) { light_hosts(node, header, m.job); });
    case wire::Method::kKillProcess:
      return with<wire::KillProcess>(payload, [&](auto m) {
        if (SimProcess* process = find(m.process); process && process->role == wire::Role::kWorker)
          kill(*process, m.reason, m.cause);
        respond(header, nothing);
      });
    case wire::Method::kStoreHold:
      return with<wire::StoreHoldRequest>(payload, [&](auto m) { on_hold(node, header, m); });
    case wire::Method::kStoreFetch:
      return with<wire::StoreFetchRequest>(payload, [&](auto m) { on_fetch(node, header, m.buffer); });
    case wire::Method::kQueryState: return respond(header, wire::encode_message(wire::StateReply{}));
    default: return broken("a daemon was asked for method " + std::to_string(header.arg0));
  }
}

void CoreWorld::on_daemon_notice(SimNode& node, const net::FrameHeader& header, ByteView payload) {
  const TimePoint now = lease_time(queue_.now());
  sched::LeaseQueue& leases = *node.leases;
  switch (wire::Method(header.arg0)) {
    case wire::Method::kLeaseWanted:
      with<wire::LeaseWanted>(payload, [&](auto m) {
        m.requester = header.source;
        m.hops = 0;
        say("process " + to_string(m.requester) + " wants " + std::to_string(m.wanted) + " leases of class " +
            std::to_string(m.request_id));
        if (find(m.requester)) leases.wanted(m, now);
      });
      break;
    case wire::Method::kForwardLease:
      with<wire::LeaseWanted>(payload, [&](auto m) {
        if (!node.deaths.contains(m.requester)) leases.wanted(m, now);
      });
      break;
    case wire::Method::kLeaseCounted: with<wire::LeaseCounted>(payload, [&](auto m) { leases.counted(m, now); }); break;
    case wire::Method::kLeaseReturned:
      with<wire::LeaseReturned>(payload, [&](auto m) {
        say("process " + to_string(header.source) + " returns lease " + std::to_string(m.lease_id) + " of node " +
            std::to_string(node.number));
        leases.returned(m.lease_id, now);
      });
      break;
    case wire::Method::kWorkerBlocked:
      with<wire::WorkerBlocked>(payload,
                                [&](auto m) { leases.worker_blocked(header.source, m.lease_id, m.blocked, now); });
      break;
    case wire::Method::kProcessDied: with<wire::ProcessDied>(payload, [&](auto m) { on_remote_death(node, m); }); break;
    case wire::Method::kNodeDied: with<wire::NodeDied>(payload, [&](auto m) { on_node_died(node, m); }); break;
    case wire::Method::kClusterView:
      with<wire::ClusterView>(payload, [&](auto m) { leases.view_delta(m, now); });
      break;
    case wire::Method::kStartActor:
      with<wire::StartActor>(payload, [&](auto m) {
        ++node.starts_seen;
        const std::pair key{m.spec.id, m.restarts};
        const auto need = sched::ResourceSet::from(m.spec.resources, sched::kActorCpus);
        node.starts[key] = {std::move(m), {}};
        leases.admit_actor(key.first, key.second, need, now);
      });
      break;
    case wire::Method::kJobEnded:
      with<wire::JobEnded>(payload, [&](auto m) {
        const std::set<ProcessId> keep(m.keep_processes.begin(), m.keep_processes.end());
        const std::set<ActorId> keep_actors(m.keep_actors.begin(), m.keep_actors.end());
        for (auto& [serial, process] : node.processes)
          if (process->alive && process->job == m.job && process->role == wire::Role::kWorker &&
              !keep.contains(process->id) && !(process->actor && keep_actors.contains(process->actor->first)))
            kill(*process, "its job ended", DeathCause::kJobEnded);
        std::erase_if(node.starts, [&](auto& one) {
          const bool over = one.second.message.spec.job == m.job && !keep_actors.contains(one.first.first);
          if (over) leases.actor_gone(one.first.first, one.first.second, now);
          return over;
        });
        leases.job_ended(m.job, keep, now);
      });
      break;
    case wire::Method::kKillActorProcess:
      with<wire::KillProcess>(payload, [&](auto m) {
        for (auto& [serial, process] : node.processes) {
          const bool meant =
              m.process.serial != 0 ? process->id == m.process : process->actor && process->actor->first == m.actor;
          if (process->alive && meant) kill(*process, m.reason, m.cause);
        }
        if (m.process.serial == 0) std::erase_if(node.starts, [&](auto& one) { return one.first.first == m.actor; });
      });
      break;
    case wire::Method::kStoreUnhold:
      with<wire::StoreHoldRequest>(payload, [&](auto m) {
        for (const wire::BufferDesc& one : m.buffers)
          node.memory->ask([&node, holder = m.holder, id = buffer_id(one)](auto&) { node.memory->unhold(holder, id); });
      });
      break;
    default: break;  // metrics, acknowledgements of deaths
  }
  apply_leases(node);
}

void CoreWorld::connect(SimNode& node, const net::FrameHeader& request, ProcessId peer) {
  SimProcess* asker = find(request.source);
  SimProcess* other = find(peer);
  if (!asker) return;
  if (auto death = node.deaths.find(peer); death != node.deaths.end())
    notice(daemon_of(node.number), asker->id, wire::Method::kProcessDied, death->second);
  if (!other || peer.node != node.number)
    return respond(request, wire::encode_message(head::error_record(ErrorCode::kNotFound, "that process is dead")),
                   true);
  if (!other->core) {  // it is starting: asked again a moment later
    queue_.after(1ms, [this, request, peer, number = node.number] {
      if (SimNode* again = node_at(number); again && again->alive) connect(*again, request, peer);
    });
    return;
  }
  if (refuses_rings_ && random_.chance(0.1) && !asker->peers.contains(peer) && !other->peers.contains(asker->id))
    return respond(request, wire::encode_message(head::error_record(ErrorCode::kRuntimeEnv, "no more descriptors")),
                   true);
  auto offer = [this](ProcessId to, ProcessId from) {
    const Time when = queue_.now() + delay(to.node);
    Channel& channel = channels_[{from, to}];
    channel.last = std::max(channel.last, when);  // what comes through the ring comes after its offer
    queue_.at(when, [this, to, from] {
      SimProcess* process = find(to);
      if (!process || process->peers.contains(from)) return;
      worker::CoreLock lock(*process->core);
      if (process->core->frames().is_dead(from)) return;
      process->peers.insert(from);
      process->core->frames().connected(from);
    });
  };
  if (!asker->peers.contains(peer)) offer(asker->id, peer);
  if (!other->peers.contains(asker->id)) offer(peer, asker->id);
  respond(request, wire::encode_message(wire::ConnectReply{}));
}

void CoreWorld::light_hosts(SimNode& node, const net::FrameHeader& request, JobId job) {
  wire::LightHostReply reply;
  bool starting = false;
  for (auto& [serial, process] : node.processes) {
    if (!process->alive || process->job != job || !process->light_host) continue;
    if (process->ready) reply.hosts.push_back(process->id);
    else starting = true;
  }
  if (!reply.hosts.empty()) return respond(request, wire::encode_message(reply));
  if (!starting) fork(node, job, wire::Role::kWorker, sched::worker_kind(job, {})).light_host = true;
  queue_.after(2ms, [this, request, job, number = node.number] {
    if (SimNode* again = node_at(number); again && again->alive && find(request.source))
      light_hosts(*again, request, job);
  });
}

// -------------------------------------------------------------------------------------------------------------- memory

void CoreWorld::plan_stops(SimNode& node) {
  queue_.after(Duration(static_cast<Duration::rep>(random_.unit() * 40e6)), [this, &node] {
    if (!node.alive || !busy_) return;
    node.memory->stop(random_, Duration(static_cast<Duration::rep>(1e6 + random_.unit() * 10e6)));
    plan_stops(node);
  });
}

/// As StoreService::hold.
void CoreWorld::on_hold(SimNode& node, const net::FrameHeader& request, const wire::StoreHoldRequest& wanted) {
  node.memory->ask([this, &node, request, wanted](store::StoreServer& server) {
    const bool gone = node.deaths.contains(wanted.holder) || node.dead_nodes.contains(wanted.holder.node);
    const bool held = !gone && server.hold(wanted.holder, buffer_id(wanted.buffers.at(0)));
    if (held) return respond(request, wire::encode_message(wire::Empty{}));
    respond(request, wire::encode_message(head::error_record(ErrorCode::kObjectLost, "no longer there")), true);
  });
}

/// As StoreService::fetch, of this node's own buffers: nobody here reads another node's.
void CoreWorld::on_fetch(SimNode& node, const net::FrameHeader& request, const wire::BufferDesc& wanted) {
  node.memory->ask([this, &node, request, wanted](store::StoreServer&) {
    if (find(request.source) && node.memory->hand_out(request.source, buffer_id(wanted)))
      return respond(request, wire::encode_message(wire::StoreFetchReply{wanted}));
    respond(request, wire::encode_message(head::error_record(ErrorCode::kObjectLost, "no longer there")), true);
  });
}

// ----------------------------------------------------------------------------------------------------------- retiring

/// As Workers::retire_idle, as long as somebody may still refuse: when everything is dropped, those that are there
/// shall show that nothing is left in them.
void CoreWorld::plan_retiring(SimNode& node) {
  queue_.after(busy_ ? kRetireEvery : 5s, [this, &node] {
    if (!node.alive || dropping_) return;
    for (ProcessId id : node.retirement->ask(1, lease_time(queue_.now() - kIdleKept))) {
      const std::uint64_t token = ++node.next_token;
      node.retiring[token] = id;
      net::FrameHeader header;
      header.kind = std::uint8_t(wire::FrameKind::kRequest);
      header.token = token;
      header.arg0 = std::uint64_t(wire::Method::kProcessRetire);
      header.source = daemon_of(node.number);
      header.destination = id;
      post(header.source, header, wire::encode_message(wire::Empty{}));
    }
    plan_retiring(node);
  });
}

void CoreWorld::on_retire_answer(SimNode& node, ProcessId worker, bool refused) {
  SimProcess* process = find(worker);
  say("worker " + to_string(worker) + (refused ? " refuses to retire" : " retires"));
  if (!refused || !process) return node.retirement->over(worker);
  node.retirement->refused(worker, 1, process->kind, lease_time(queue_.now()));
  apply_leases(node);
}

// -------------------------------------------------------------------------------------------------------------- leases

void CoreWorld::apply_leases(SimNode& node) {
  const ProcessId daemon = daemon_of(node.number);
  for (auto effects = node.leases->take_effects(); !effects.empty(); effects = node.leases->take_effects())
    for (const sched::LeaseEffect& effect : effects) {
      if (const auto* granted = std::get_if<sched::Granted>(&effect)) {
        say("node " + std::to_string(node.number) + " grants " + to_string(granted->requester) + " of class " +
            std::to_string(granted->lease.request_id) + " worker " + to_string(granted->lease.worker));
        notice(daemon, granted->requester, wire::Method::kLeaseGranted, granted->lease);
        const SimProcess* far = granted->requester.node == node.number ? nullptr : find(granted->requester);
        if (far && far->role == wire::Role::kWorker) node_may_die_soon(node.number, 0.02);  // TS-10
      } else if (const auto* refused = std::get_if<sched::Refused>(&effect))
        notice(daemon, refused->requester, wire::Method::kLeaseRefused, refused->refusal);
      else if (const auto* need = std::get_if<sched::NeedWorkers>(&effect))
        for (int i = 0; i < need->count; ++i) fork(node, need->kind.job, wire::Role::kWorker, need->kind);
      else if (const auto* forward = std::get_if<sched::Forward>(&effect)) {
        say("node " + std::to_string(node.number) + " asks node " + std::to_string(forward->node) + " for " +
            std::to_string(forward->wanted.wanted) + " leases for " + to_string(forward->wanted.requester) + " class " +
            std::to_string(forward->wanted.request_id));
        notice(daemon, daemon_of(forward->node), wire::Method::kForwardLease, forward->wanted);
      } else if (const auto* counted = std::get_if<sched::CountAtOrigin>(&effect)) {
        say("node " + std::to_string(node.number) + " tells node " + std::to_string(counted->node) + " of " +
            std::to_string(counted->counted.granted) + " granted, " + std::to_string(counted->counted.given_back) +
            " given back for " + to_string(counted->counted.requester));
        notice(daemon, daemon_of(counted->node), wire::Method::kLeaseCounted, counted->counted);
      } else if (const auto* end = std::get_if<sched::EndWorker>(&effect)) {
        if (SimProcess* process = find(end->worker)) kill(*process, end->reason, DeathCause::kKilled);
      } else if (const auto* admitted = std::get_if<sched::ActorAdmitted>(&effect)) {
        actor_admitted(node, {admitted->actor, admitted->restarts}, admitted->gpu_ids);
      } else if (const auto* denied = std::get_if<sched::ActorNotAdmitted>(&effect)) {
        node.starts.erase({denied->actor, denied->restarts});
        notice(daemon, kHead, wire::Method::kStartActorFailed,
               wire::StartActorFailed{denied->actor, denied->restarts,
                                      head::error_record(ErrorCode::kInfeasible, denied->reason), true});
      }
    }
  plan_load(node);
  const std::optional<TimePoint> next = node.leases->next_deadline();
  if (!next) return;
  const Time at = next->time_since_epoch() - 1h;
  if (node.lease_timer && *node.lease_timer <= at) return;
  node.lease_timer = at;
  queue_.at(at, [this, &node, at] {
    if (!node.alive || node.lease_timer != at) return;
    node.lease_timer.reset();
    node.leases->tick(lease_time(queue_.now()));
    apply_leases(node);
  });
}

void CoreWorld::plan_load(SimNode& node) {
  if (std::exchange(node.load_planned, true)) return;
  queue_.after(10ms, [this, &node] {
    node.load_planned = false;
    if (!node.alive || !node.registered) return;
    notice(daemon_of(node.number), kHead, wire::Method::kNodeLoad,
           wire::NodeLoad{node.number, ++node.load_version, node.leases->room().to_map(),
                          node.leases->pending(), node.starts_seen});
  });
}

// -------------------------------------------------------------------------------------------------------------- actors

void CoreWorld::actor_admitted(SimNode& node, std::pair<ActorId, std::int32_t> key, std::vector<int> gpu_ids) {
  auto at = node.starts.find(key);
  if (at == node.starts.end()) return node.leases->actor_gone(key.first, key.second, lease_time(queue_.now()));
  at->second.gpu_ids = std::move(gpu_ids);
  at->second.admitted = true;
  const wire::ActorSpec& spec = at->second.message.spec;
  const sched::WorkerKind kind = sched::worker_kind(spec.job, {});
  if (spec.isolation == Isolation::kLight) {
    bool starting = false;
    for (auto& [serial, process] : node.processes) {
      if (!process->alive || process->job != spec.job || !process->light_host) continue;
      if (process->ready) return construct_in(node, *process, key);
      starting = true;
    }
    if (!starting) fork(node, spec.job, wire::Role::kWorker, kind).light_host = true;
    return;
  }
  std::optional<ProcessId> idle = node.leases->take_worker(kind);
  if (idle && !find(*idle)) {  // it has just died
    node.starts.erase(at);
    node.leases->actor_gone(key.first, key.second, lease_time(queue_.now()));
    return notice(daemon_of(node.number), kHead, wire::Method::kStartActorFailed,
                  wire::StartActorFailed{key.first, key.second,
                                         head::error_record(ErrorCode::kWorkerCrashed, "its process died"), true});
  }
  SimProcess& process = idle ? *find(*idle) : fork(node, spec.job, wire::Role::kWorker, kind);
  process.actor = key;
  if (idle) construct_in(node, process, key);
}

void CoreWorld::construct_in(SimNode& node, SimProcess& process, std::pair<ActorId, std::int32_t> key) {
  auto start = node.starts.extract(key);
  if (!start) return;
  wire::StartActor& message = start.mapped().message;
  if (message.spec.isolation == Isolation::kLight) node.light_actors[key] = process.id;
  say("actor " + to_string(key.first) + " restart " + std::to_string(key.second) + " goes to " + to_string(process.id));
  notice(daemon_of(node.number), kHead, wire::Method::kActorPlaced,
         wire::ActorStarted{key.first, key.second, process.id, 1});
  notice(daemon_of(node.number), process.id, wire::Method::kConstructActor,
         wire::ConstructActor{std::move(message.spec), message.restarts, std::move(message.checkpoint),
                              std::move(start.mapped().gpu_ids)});
}

/// What the daemon sees of a notice that it passes on to the head.
void CoreWorld::peek(SimNode& node, const Frame& frame) {
  // The actor is there, and what it was given is not counted there yet (KP-4).
  if (frame.header.arg0 == std::uint64_t(wire::Method::kActorStarted)) may_die_soon(frame.header.source, 0.04, random_);
  if (frame.header.arg0 != std::uint64_t(wire::Method::kActorExited)) return;
  with<wire::ActorExited>(frame.payload, [&](auto exited) {
    const std::pair key{exited.actor, exited.restarts};
    if (node.light_actors.erase(key) > 0) node.leases->actor_gone(key.first, key.second, lease_time(queue_.now()));
    if (SimProcess* process = find(frame.header.source); process && process->actor == key) {
      process->in_order = true;
      process->cause = exited.cause;
      process->reason = exited.message;
    }
  });
}

}  // namespace troupe::sim

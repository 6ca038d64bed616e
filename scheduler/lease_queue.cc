#include "scheduler/lease_queue.h"

#include <algorithm>

namespace troupe::sched {
namespace {

std::uint32_t delegated_total(const std::map<std::uint32_t, std::uint32_t>& delegated) {
  std::uint32_t total = 0;
  for (const auto& [node, count] : delegated) total += count;
  return total;
}

std::uint32_t milliseconds_of(Duration span) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(span).count());
}

ErrorRecord infeasible_error(std::string reason) {
  ErrorRecord record;
  record.code = ErrorCode::kInfeasible;
  record.message = std::move(reason);
  return record;
}

}  // namespace

LeaseQueue::LeaseQueue(LeaseQueueOptions options)
    : options_(std::move(options)),
      resources_(options_.total),
      actors_(resources_, {.node = options_.node,
                           .wait = options_.actor_wait,
                           .wait_for_tasks = options_.actor_wait_for_tasks}),
      keeper_({.first = options_.look_every, .most = options_.keep_most}) {
  self_.node = options_.node;
  self_.node_id = options_.node_id;
  self_.total = self_.available = options_.total;
  self_.labels = options_.labels;
  view_.put(self_);
  alone_.put(self_);
}

// ------------------------------------------------------------------------------------------------------------ requests

void LeaseQueue::wanted(const wire::LeaseWanted& wanted, TimePoint now) {
  auto [place, fresh] = keys_.try_emplace({wanted.requester, wanted.request_id}, next_key_);
  if (fresh) {
    if (wanted.wanted == 0) {
      keys_.erase(place);
      return;
    }
    Waiting request;
    request.wanted = wanted;
    request.wanted.wanted = 0;
    request.need = ResourceSet::from(wanted.lease_class.resources, kTaskCpus);
    request.served = places_ > 0 ? places_ - 1 : 0;  // before who was served last, behind all who have waited longer
    requests_.emplace(next_key_++, std::move(request));
  }
  const Key key = place->second;
  Waiting& request = requests_.at(key);
  request.wanted.bytes_by_node = wanted.bytes_by_node;
  request.wanted.claim_ms = wanted.claim_ms;
  const std::uint32_t delegated = delegated_total(request.delegated);
  const std::uint32_t under_way = request.reserved + delegated;
  if (!waits(request)) request.since = now;
  request.wanted.wanted = wanted.wanted > under_way ? wanted.wanted - under_way : 0;
  if (wanted.wanted < under_way) {
    std::uint32_t excess = under_way - wanted.wanted;
    const std::uint32_t here = std::min(excess, request.reserved);
    drop_reservations(key, here);
    excess -= here;
    for (auto& [node, count] : request.delegated) {
      const std::uint32_t less = std::min(excess, count);
      if (less == 0) continue;
      count -= less;
      excess -= less;
      request.stale.insert(node);
      if (count == 0) request.claim.close_at(node);
    }
  }
  settle(now);
  forget_if_done(key);
}

void LeaseQueue::counted(const wire::LeaseCounted& counted, TimePoint now) {
  auto place = keys_.find({counted.requester, counted.request_id});
  if (place == keys_.end()) return;
  const Key key = place->second;
  Waiting& request = requests_.at(key);
  auto delegated = request.delegated.find(counted.node);
  if (delegated == request.delegated.end()) return;
  if (counted.refused) {  // LQ-4
    forget(key);
    return settle(now);
  }
  const std::uint32_t granted = std::min(counted.granted, delegated->second);
  delegated->second -= granted;
  const std::uint32_t back = std::min(counted.given_back, delegated->second);
  delegated->second -= back;
  const bool claimed = request.claim.is_at(counted.node);
  if (delegated->second == 0) {
    request.delegated.erase(delegated);
    request.claim.close_at(counted.node);
  }
  if (granted > 0) request.claim.progressed();
  if (back > 0) {
    if (request.wanted.wanted == 0 && !claimed) request.since = now;  // a claim is no end of its wait
    request.wanted.wanted += back;
  }
  settle(now);
  forget_if_done(key);
}

void LeaseQueue::returned(std::uint64_t lease_id, TimePoint now) {
  end_lease(lease_id, now);
  settle(now);
}

std::uint64_t LeaseQueue::renew(std::uint64_t lease_id, ProcessId requester, TimePoint now) {
  auto it = leases_.find(lease_id);
  if (it == leases_.end() || it->second.requester != requester) return 0;
  worker_blocked(it->second.worker, lease_id, false, now);  // should the worker's own word be behind this one
  if (resources_.available().cpu < 0 || others_wait(it->second)) {
    returned(lease_id, now);
    return 0;
  }
  // A new number: what the worker refuses under the old one may be on its way to it still.
  const std::uint64_t renewed = next_lease_++;
  auto lease = leases_.extract(it);
  lease.key() = renewed;
  workers_.lease_renewed(lease.mapped().worker, lease_id, renewed);
  leases_.insert(std::move(lease));
  return renewed;
}

/// LQ-8: for something that this lease has.
bool LeaseQueue::others_wait(const Lease& lease) const {
  const ResourceSet& held = lease.allocation.amount;
  if (actors_.one_lacks(held)) return true;
  const ResourceSet room = room_for_leases(kNobody);
  return std::any_of(requests_.begin(), requests_.end(), [&](const auto& one) {
    const wire::LeaseWanted& wanted = one.second.wanted;
    return wanted.wanted > 0 && !one.second.without_workers &&
           (wanted.requester != lease.requester || wanted.request_id != lease.request_id) &&
           would_help(held, one.second.need, room) && could_run_here(one.second);
  });
}

bool LeaseQueue::others_wait(Key key) const {
  if (actors_.waiting() > 0) return true;
  return std::any_of(requests_.begin(), requests_.end(), [&](const auto& one) {
    return one.first != key && one.second.wanted.wanted > 0 && !one.second.without_workers &&
           could_run_here(one.second);
  });
}

/// Were it not for tasks.
bool LeaseQueue::could_run_here(const Waiting& request) const {
  if (!actors_.leave_room_for(request.need)) return false;
  if (!is_origin(request)) return true;
  const wire::LeaseClass& c = request.wanted.lease_class;
  return decide(alone_, {request.need, c.scheduling, c.labels, {}}, {options_.node, 0}).kind == Decision::Kind::kHere;
}

void LeaseQueue::refuse(Key key, ErrorRecord error) {
  const Waiting& request = requests_.at(key);
  if (!is_origin(request)) {  // before the requester hears of it and asks anew
    wire::LeaseCounted refused{request.wanted.requester, request.wanted.request_id, options_.node, 0, 0, true};
    effects_.push_back(CountAtOrigin{request.wanted.requester.node, std::move(refused)});
  }
  effects_.push_back(Refused{request.wanted.requester, {request.wanted.request_id, std::move(error)}});
  forget(key);
}

void LeaseQueue::drop_reservations(Key key, std::uint32_t count) {
  for (auto it = reservations_.end(); count > 0 && it != reservations_.begin();) {
    --it;
    if (it->second.request != key) continue;
    resources_.give_back(it->second.allocation, false);
    requests_.at(key).reserved--;
    count--;
    it = reservations_.erase(it);
  }
}

void LeaseQueue::forget_if_done(Key key) {
  auto it = requests_.find(key);
  if (it == requests_.end()) return;
  const Waiting& request = it->second;
  if (request.wanted.wanted == 0 && request.reserved == 0 && delegated_total(request.delegated) == 0 &&
      request.stale.empty())
    forget(key);
}

void LeaseQueue::forget(Key key) {
  auto it = requests_.find(key);
  if (it == requests_.end()) return;
  drop_reservations(key, it->second.reserved);
  keys_.erase({it->second.wanted.requester, it->second.wanted.request_id});
  keeper_.forget(key);
  requests_.erase(it);
}

// ------------------------------------------------------------------------------------------------------------- workers

void LeaseQueue::worker_ready(ProcessId id, std::int32_t pid, const WorkerKind& kind, TimePoint now,
                              WorkerPast past) {
  workers_.ready(id, pid, kind, now, past);
  workers_came_or_not(kind.job);
  settle(now);
}

void LeaseQueue::worker_failed(const WorkerKind& kind, std::optional<ErrorRecord> error, TimePoint now) {
  workers_.not_coming(kind);
  workers_came_or_not(kind.job);
  if (error) {
    auto it =
        std::find_if(reservations_.begin(), reservations_.end(), [&](const auto& r) { return r.second.kind == kind; });
    if (it != reservations_.end()) refuse(it->second.request, std::move(*error));
  }
  settle(now);
}

/// LQ-12: their requests may take resources again.
void LeaseQueue::workers_came_or_not(JobId job) {
  for (auto& [key, request] : requests_)
    if (request.wanted.lease_class.job == job) request.without_workers = false;
}

void LeaseQueue::worker_blocked(ProcessId id, std::uint64_t lease_id, bool blocked, TimePoint now) {
  auto it = leases_.find(lease_id);
  if (it == leases_.end() || it->second.worker != id || it->second.cpus_lent == blocked) return;
  it->second.cpus_lent = blocked;
  if (blocked) resources_.lend_cpus(it->second.allocation);
  else resources_.reclaim_cpus(it->second.allocation);
  workers_.task_waits(id, lease_id, blocked);
  settle(now);
}

void LeaseQueue::end_lease(std::uint64_t lease_id, TimePoint now) {
  auto it = leases_.find(lease_id);
  if (it == leases_.end()) return;
  const Lease lease = std::move(it->second);
  leases_.erase(it);
  resources_.give_back(lease.allocation, lease.cpus_lent);
  workers_.lease_ended(lease.worker, lease_id, now);
}

// -------------------------------------------------------------------------------------------------------------- actors

void LeaseQueue::admit_actor(ActorId actor, std::int32_t restarts, const ResourceSet& need, TimePoint now) {
  actors_.wait(actor, restarts, need, now);
  settle(now);
}

void LeaseQueue::actor_gone(ActorId actor, std::int32_t restarts, TimePoint now) {
  actors_.gone(actor, restarts);
  settle(now);
}

// -------------------------------------------------------------------------------------------------------------- deaths

void LeaseQueue::drop_requester(ProcessId process) {
  for (auto it = keys_.lower_bound({process, 0}); it != keys_.end() && it->first.first == process;) {
    const Key key = it->second;
    ++it;
    forget(key);
  }
  for (auto& [id, lease] : leases_) {
    if (lease.requester == process && workers_.end(lease.worker))
      effects_.push_back(EndWorker{lease.worker, "the process that had submitted its task died"});
  }
}

void LeaseQueue::process_died(ProcessId process, TimePoint now) {
  drop_requester(process);
  for (std::uint64_t lease : workers_.died(process)) end_lease(lease, now);
  workers_.forget(process);
  settle(now);
}

void LeaseQueue::node_died(std::uint32_t node, TimePoint now) {
  if (const NodeView* gone = view_.find(node)) unknown_.gone(gone->node_id);
  view_.remove(node);
  reported_.erase(node);
  std::set<ProcessId> requesters;
  for (const auto& [key, unused] : keys_) if (key.first.node == node) requesters.insert(key.first);
  for (const auto& [id, lease] : leases_) if (lease.requester.node == node) requesters.insert(lease.requester);
  for (ProcessId requester : requesters) drop_requester(requester);
  for (auto& [key, request] : requests_) {
    request.stale.erase(node);
    auto it = request.delegated.find(node);
    if (it == request.delegated.end()) continue;
    if (request.wanted.wanted == 0) request.since = now;
    request.wanted.wanted += it->second;
    request.delegated.erase(it);
    request.claim.close_at(node);
  }
  settle(now);
}

/// Actors of the job that wait are those of whoever asked for them: it may keep some. Of requests, those of its other
/// processes go. (LQ-13)
void LeaseQueue::job_ended(JobId job, const std::set<ProcessId>& kept, TimePoint now) {
  std::vector<Key> ended;
  for (const auto& [key, request] : requests_)
    if (request.wanted.lease_class.job == job && !kept.contains(request.wanted.requester)) ended.push_back(key);
  for (Key key : ended) {
    const Waiting& request = requests_.at(key);
    const ProcessId requester = request.wanted.requester;
    if (const std::uint32_t back = request.wanted.wanted + request.reserved; back > 0 && !is_origin(request))
      effects_.push_back(
          CountAtOrigin{requester.node, {requester, request.wanted.request_id, options_.node, 0, back}});
    forget(key);
  }
  workers_.job_ended(job);
  turns_.job_ended(job);
  settle(now);
}

void LeaseQueue::view_delta(const wire::ClusterView& delta, TimePoint now) {
  for (std::uint32_t dead : delta.dead)
    if (const NodeView* gone = view_.find(dead)) unknown_.gone(gone->node_id);
  if (!view_.apply(delta)) return;
  if (delta.full) reported_.clear();
  for (const wire::NodeInfo& info : delta.nodes)
    if (const NodeView* node = view_.find(info.node)) reported_[info.node] = node->available;
  for (std::uint32_t dead : delta.dead) reported_.erase(dead);
  if (!view_.find(options_.node)) view_.put(self_);
  settle(now);
}

// ---------------------------------------------------------------------- who is served next, where, and by which worker

void LeaseQueue::settle(TimePoint now) {
  for (ActorAdmitted& admitted : actors_.admit()) effects_.push_back(std::move(admitted));
  take_claims_back();
  place_leases(now);
  give_workers();
  send_forwards();
  if (const auto kept = keeper_.request(); kept && !waits(requests_.at(*kept))) keeper_.stop(*kept);
  const bool some_wait =
      std::any_of(requests_.begin(), requests_.end(), [](const auto& one) { return waits(one.second); });
  if (!some_wait) look_at_.reset();
  else if (!look_at_) look_at_ = now + options_.look_every;
}

/// What is free, less what is kept for actors (LQ-7) and for a request that is not the asker (LQ-10).
ResourceSet LeaseQueue::room_for_leases(Key asker) const {
  ResourceSet room = resources_.at_once();  // LQ-14
  room.subtract(actors_.kept_back());
  const std::optional<Key> kept = keeper_.request();
  if (!kept || *kept == asker) return room;
  const Waiting& keeper = requests_.at(*kept);
  if (waits(keeper) && actors_.leave_room_for(keeper.need)) room.subtract(keeper.need);
  return room;
}

/// LQ-11: its own node has room, and nothing else of the request waits for that.
void LeaseQueue::take_claims_back() {
  for (auto& [key, request] : requests_) {
    if (!request.claim.is_open() || request.wanted.wanted > 0 || request.without_workers ||
        !request.need.fits(room_for_leases(key)) || !could_run_here(request))
      continue;
    const std::uint32_t node = request.claim.node();
    request.claim.close();
    request.delegated.at(node)--;
    request.stale.insert(node);
    request.wanted.wanted++;
  }
}

void LeaseQueue::place_leases(TimePoint now) {
  std::vector<Turns::Candidate> candidates;
  for (const auto& [key, request] : requests_)
    if (const wire::LeaseWanted& wanted = request.wanted; wanted.wanted > 0)
      candidates.push_back({wanted.lease_class.job, wanted.requester, key, request.served});
  turns_.serve(std::move(candidates), [&](Key key) { return place_one(key, now); });
}

bool LeaseQueue::place_one(Key key, TimePoint now) {
  auto found = requests_.find(key);
  if (found == requests_.end() || found->second.wanted.wanted == 0) return false;
  Waiting& request = found->second;
  const wire::LeaseWanted& wanted = request.wanted;
  const ResourceSet room = room_for_leases(key);
  view_.set_load(options_.node, room, 0);
  const bool forwarded = !is_origin(request);
  Decision decision{Decision::Kind::kHere, options_.node, {}};
  if (!forwarded) {
    const wire::LeaseClass& c = wanted.lease_class;
    decision =
        decide(view_, {request.need, c.scheduling, c.labels, wanted.bytes_by_node}, {options_.node, last_spread_});
    if (decision.node != 0 && std::holds_alternative<Spread>(c.scheduling)) last_spread_ = decision.node;
  }
  request.reason = decision.reason;
  request.awaits_node_until.reset();
  if (decision.unknown_node) request.awaits_node_until = awaited_until(wanted.lease_class.scheduling, now);
  if (request.awaits_node_until) return false;
  if (decision.kind == Decision::Kind::kInfeasible) {
    refuse(key, infeasible_error(decision.reason));
    return false;
  }
  if (decision.kind == Decision::Kind::kWait) return false;
  if (decision.kind == Decision::Kind::kNode && decision.node != options_.node) {
    delegate(request, decision.node, now);
    request.claim.close();
    request.served = ++places_;
    keeper_.stop(key);
    return true;
  }
  std::optional<Allocation> allocation = request.need.fits(room) ? resources_.take(request.need) : std::nullopt;
  if (!allocation) return false;
  WorkerKind kind = worker_kind(wanted.lease_class.job, wanted.lease_class.env, allocation->gpu_ids);
  if (!may_reserve(key, kind)) {
    resources_.give_back(*allocation, false);
    return false;
  }
  reservations_.emplace(next_reservation_++, Reservation{key, std::move(*allocation), std::move(kind), now});
  keeper_.progressed(key);
  request.claim.progressed();
  request.wanted.wanted--;
  request.reserved++;
  request.since = now;
  request.served = ++places_;
  return true;
}

/// LQ-12
bool LeaseQueue::may_reserve(Key key, const WorkerKind& kind) const {
  const Waiting& request = requests_.at(key);
  if (workers_.blocked() >= options_.max_suspended_workers) return true;  // LQ-2
  const std::size_t without = request.without_workers ? 1 : 0;
  return request.reserved + without <= workers_.idle_count(kind) || !others_wait(key);
}

/// LQ-9
std::optional<TimePoint> LeaseQueue::awaited_until(const Scheduling& wanted, TimePoint now) {
  const auto* affinity = std::get_if<NodeAffinity>(&wanted);
  return affinity ? unknown_.awaited_until(affinity->node_id, now, options_.unknown_node_wait) : std::nullopt;
}

void LeaseQueue::delegate(Waiting& request, std::uint32_t node, TimePoint now) {
  view_.debit(node, request.need);
  if (!guessed_at_) guessed_at_ = now;
  request.wanted.wanted--;
  request.delegated[node]++;
  request.stale.insert(node);
}

void LeaseQueue::send_forwards() {
  std::vector<Key> touched;
  for (auto& [key, request] : requests_) {
    if (request.stale.empty()) continue;
    for (std::uint32_t node : std::exchange(request.stale, {})) {
      wire::LeaseWanted wanted = request.wanted;
      auto it = request.delegated.find(node);
      wanted.wanted = it == request.delegated.end() ? 0 : it->second;
      wanted.hops++;
      wanted.claim_ms = request.claim.is_at(node) ? milliseconds_of(request.claim.wait()) : 0;
      if (it != request.delegated.end() && it->second == 0) {
        request.delegated.erase(it);
        request.claim.close_at(node);
      }
      effects_.push_back(Forward{node, std::move(wanted)});
    }
    touched.push_back(key);
  }
  for (Key key : touched) forget_if_done(key);
}

std::optional<ProcessId> LeaseQueue::worker_for(const WorkerKind& kind) {
  if (const std::optional<ProcessId> idle = workers_.idle_of(kind)) return idle;
  if (workers_.blocked() < options_.max_suspended_workers) return std::nullopt;
  // LQ-2: so many processes wait that one more must share.
  const std::optional<ProcessId> shared = workers_.blocked_of(kind);
  if (shared && !suspended_warned_) {
    suspended_warned_ = true;
    effects_.push_back(Warn{kind.job, std::to_string(workers_.blocked()) +
                                          " workers of this node wait in get or wait: further tasks share "
                                          "their processes (max_suspended_workers)"});
  }
  return shared;
}

void LeaseQueue::give_workers() {
  std::map<WorkerKind, int> without;
  for (auto it = reservations_.begin(); it != reservations_.end();) {
    const std::optional<ProcessId> worker = worker_for(it->second.kind);
    if (!worker) {
      without[it->second.kind]++;
      ++it;
      continue;
    }
    const Reservation reservation = std::move(it->second);
    it = reservations_.erase(it);
    grant(reservation, *worker);
  }
  for (const auto& [kind, count] : without)
    if (const int more = workers_.to_start(kind, count); more > 0) effects_.push_back(NeedWorkers{kind, more});
}

void LeaseQueue::grant(const Reservation& reservation, ProcessId id) {
  Waiting& request = requests_.at(reservation.request);
  const std::uint64_t lease_id = next_lease_++;
  const WorkerPool::Leased worker = workers_.lease(id, lease_id);
  const ProcessId requester = request.wanted.requester;
  leases_[lease_id] = {requester, id, request.wanted.request_id, reservation.allocation, false};
  request.reserved--;
  // The origin counts it before the requester, behind it, can have used it up and ask again: that wish would be taken
  // for this.
  if (!is_origin(request))
    effects_.push_back(CountAtOrigin{requester.node, {requester, request.wanted.request_id, options_.node, 1, 0}});
  effects_.push_back(Granted{
      requester, {request.wanted.request_id, lease_id, id, worker.pid, reservation.allocation.gpu_ids, worker.shared}});
  forget_if_done(reservation.request);
}

// ---------------------------------------------------------------------------------------------------------------- time

/// How long what another node passed on waits here (LQ-4).
Duration LeaseQueue::patience(const Waiting& request) const {
  const Duration claim = std::chrono::milliseconds(request.wanted.claim_ms);
  return claim == Duration::zero() ? options_.give_back_after : std::min(claim, options_.keep_most);
}

void LeaseQueue::give_back_forwarded(TimePoint now) {
  std::vector<Key> touched;
  for (auto& [key, request] : requests_) {
    if (is_origin(request) || request.wanted.wanted == 0 || now < request.since + patience(request)) continue;
    const ProcessId requester = request.wanted.requester;
    effects_.push_back(
        CountAtOrigin{requester.node, {requester, request.wanted.request_id, options_.node, 0, request.wanted.wanted}});
    request.wanted.wanted = 0;
    touched.push_back(key);
  }
  for (Key key : touched) forget_if_done(key);
}

/// LQ-12
void LeaseQueue::drop_stale_reservations(TimePoint now) {
  for (auto it = reservations_.begin(); it != reservations_.end();) {
    const Key key = it->second.request;
    if (now < it->second.since + options_.worker_wait || !others_wait(key)) {
      ++it;
      continue;
    }
    Waiting& request = requests_.at(key);
    resources_.give_back(it->second.allocation, false);
    it = reservations_.erase(it);
    request.reserved--;
    if (request.wanted.wanted++ == 0) request.since = now;
    request.without_workers = true;
    request.served = ++places_;
  }
}

/// At what makes no progress.
void LeaseQueue::look(TimePoint now) {
  if (!look_at_ || now < *look_at_) return;
  look_at_.reset();  // settle sets it again
  keep_for_next(now);
  for (auto& [key, request] : requests_) claim(request, now);
}

/// LQ-11
void LeaseQueue::claim(Waiting& request, TimePoint now) {
  if (!is_origin(request) || request.wanted.wanted == 0 || !request.delegated.empty() || request.awaits_node_until ||
      now < request.since + options_.look_every)
    return;
  const wire::LeaseClass& c = request.wanted.lease_class;
  ClusterView view = view_;
  if (request.without_workers) view.set_load(options_.node, {}, 0);
  const std::uint32_t node = node_to_claim(view, {request.need, c.scheduling, c.labels, {}},
                                           {options_.node, last_spread_}, request.claim.last());
  if (node == 0) return;
  delegate(request, node, now);
  request.claim.open(node, {.first = options_.claim_wait, .most = options_.keep_most});
}

/// LQ-10
void LeaseQueue::keep_for_next(TimePoint now) {
  if (!keeper_.vacant(now)) return;
  for (const auto& [key, request] : requests_) {  // by arrival
    if (!waits(request) || request.without_workers || now < request.since + options_.look_every ||
        keeper_.rests(key, now) || !freed_by_no_lease(request.need) || !could_run_here(request))
      continue;
    keeper_.keep_for(key, now);
    return;
  }
}

bool LeaseQueue::freed_by_no_lease(const ResourceSet& need) const {
  if (LocalResources now = resources_; now.take(need)) return false;  // it waits for something else
  return std::none_of(leases_.begin(), leases_.end(), [&](const auto& one) {
    LocalResources then = resources_;
    then.give_back(one.second.allocation, one.second.cpus_lent);
    return then.take(need).has_value();
  });
}

void LeaseQueue::forget_guesses(TimePoint now) {
  if (!guessed_at_ || now < *guessed_at_ + options_.guess_life) return;
  guessed_at_.reset();
  for (const auto& [node, available] : reported_)
    if (const NodeView* view = view_.find(node); view && node != options_.node)
      view_.set_load(node, available, view->pending);
}

void LeaseQueue::tick(TimePoint now) {
  forget_guesses(now);  // LQ-6
  give_back_forwarded(now);
  drop_stale_reservations(now);
  look(now);
  for (auto& [key, request] : requests_) {
    if (request.warned || request.wanted.wanted == 0 || request.reason.empty() ||
        now < request.since + options_.warn_after)
      continue;
    request.warned = true;
    effects_.push_back(Warn{request.wanted.lease_class.job, request.reason});
  }
  for (ActorNotAdmitted& given_up : actors_.give_up(now)) effects_.push_back(std::move(given_up));
  settle(now);
}

std::optional<TimePoint> LeaseQueue::next_deadline() const {
  std::optional<TimePoint> next;
  auto offer = [&](TimePoint t) { if (!next || t < *next) next = t; };
  for (const auto& [key, request] : requests_) {
    if (request.wanted.wanted == 0) continue;
    if (!is_origin(request)) offer(request.since + patience(request));
    if (request.awaits_node_until) offer(*request.awaits_node_until);
    if (!request.warned && !request.reason.empty()) offer(request.since + options_.warn_after);
  }
  for (const auto& [id, reservation] : reservations_)
    if (others_wait(reservation.request)) offer(reservation.since + options_.worker_wait);
  if (look_at_) offer(*look_at_);
  if (guessed_at_) offer(*guessed_at_ + options_.guess_life);
  if (const auto actors = actors_.next_deadline()) offer(*actors);
  return next;
}

// --------------------------------------------------------------------------------------------------------------- state

ResourceSet LeaseQueue::room() const {
  ResourceSet room = room_for_leases(kNobody);
  const ResourceSet& free = resources_.available();
  room.cpu = std::max(room.cpu, std::min<Fixed>(free.cpu, 0));
  room.gpu = std::max<Fixed>(room.gpu, 0);
  room.memory = std::max<Fixed>(room.memory, 0);
  std::erase_if(room.custom, [](const auto& one) { return one.second < 0; });
  return room;
}

std::uint64_t LeaseQueue::pending() const {
  std::uint64_t count = actors_.waiting();
  for (const auto& [key, request] : requests_) count += request.wanted.wanted;
  return count;
}

std::string LeaseQueue::audit() const {
  ResourceSet sum = resources_.available();
  auto add = [&](const Allocation& allocation, bool cpus_lent) {
    ResourceSet amount = allocation.amount;
    if (cpus_lent) amount.cpu = 0;
    sum.add(amount);
  };
  for (const auto& [id, r] : reservations_) add(r.allocation, false);
  for (const auto& [id, lease] : leases_) add(lease.allocation, lease.cpus_lent);
  sum.add(actors_.held());
  if (!(sum == resources_.total()))
    return "LQ-1: the parts sum to " + sum.to_string() + ", not " + resources_.total().to_string();
  std::set<std::uint64_t> leases;
  for (const auto& [id, lease] : leases_) leases.insert(id);
  if (std::string wrong = workers_.audit(leases); !wrong.empty()) return wrong;
  for (const auto& [id, r] : reservations_)
    if (!requests_.contains(r.request)) return "LQ-3: a reservation without a request";
  if (const auto kept = keeper_.request(); kept && !requests_.contains(*kept))
    return "LQ-10: something is kept for a request that is gone";
  for (const auto& [key, request] : requests_)
    if (request.claim.is_open() && !request.delegated.contains(request.claim.node()))
      return "LQ-11: a claim is not delegated";
  for (const auto& [key, id] : keys_) if (!requests_.contains(id)) return "a key without a request";
  return {};
}

}  // namespace troupe::sched

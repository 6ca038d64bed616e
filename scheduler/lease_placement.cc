// The deciding half of LeaseQueue: who is served next, where, and by which worker.
#include <algorithm>

#include "scheduler/lease_queue.h"

namespace troupe::sched {
namespace {

/// Moves the turns after `last` to the front: round robin.
template <class Map, class K>
std::vector<typename Map::iterator> in_turn(Map& map, const K& last) {
  std::vector<typename Map::iterator> order;
  for (auto it = map.upper_bound(last); it != map.end(); ++it) order.push_back(it);
  for (auto it = map.begin(); it != map.upper_bound(last); ++it) order.push_back(it);
  return order;
}

ErrorRecord infeasible_error(std::string reason) {
  ErrorRecord record;
  record.code = ErrorCode::kInfeasible;
  record.message = std::move(reason);
  return record;
}

}  // namespace

void LeaseQueue::settle(TimePoint now) {
  admit_actors();
  place_leases(now);
  give_workers(now);
  send_forwards();
}

void LeaseQueue::admit_actors() {
  for (auto it = actor_waits_.begin(); it != actor_waits_.end();) {
    std::optional<Allocation> allocation = allocate(it->need);
    if (!allocation) {
      ++it;
      continue;
    }
    effects_.push_back(ActorAdmitted{it->actor, it->restarts, allocation->gpu_ids});
    actors_[{it->actor, it->restarts}] = {it->job, std::move(*allocation)};
    it = actor_waits_.erase(it);
  }
}

void LeaseQueue::place_leases(TimePoint now) {
  Turns turns;
  for (const auto& [key, request] : requests_)
    if (request.wanted.wanted > 0) turns[request.wanted.lease_class.job][request.wanted.requester].push_back(key);
  // What did not fit once does not fit later in this pass: amounts only shrink. So whoever fails leaves the round.
  while (!turns.empty()) {
    for (auto it : in_turn(turns, last_job_)) {
      if (place_for_job(it->second, last_requester_[it->first], now)) last_job_ = it->first;
      else turns.erase(it);
    }
  }
}

bool LeaseQueue::place_for_job(std::map<ProcessId, std::deque<Key>>& turns, ProcessId& last, TimePoint now) {
  for (auto it : in_turn(turns, last)) {
    std::deque<Key>& keys = it->second;
    while (!keys.empty() && !place_one(keys.front(), now)) keys.pop_front();
    if (keys.empty()) {
      turns.erase(it);
      continue;
    }
    last = it->first;
    return true;
  }
  return false;
}

bool LeaseQueue::place_one(Key key, TimePoint now) {
  auto found = requests_.find(key);
  if (found == requests_.end() || found->second.wanted.wanted == 0) return false;
  Waiting& request = found->second;
  const wire::LeaseWanted& wanted = request.wanted;
  view_.set_load(options_.node, account_.available(), 0);
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
    return true;
  }
  std::optional<Allocation> allocation = allocate(request.need);
  if (!allocation) return false;
  WorkerKind kind = worker_kind(wanted.lease_class.job, wanted.lease_class.env, allocation->gpu_ids);
  reservations_.emplace(next_reservation_++, Reservation{key, std::move(*allocation), std::move(kind)});
  request.wanted.wanted--;
  request.reserved++;
  request.since = now;
  return true;
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
      if (it != request.delegated.end() && it->second == 0) request.delegated.erase(it);
      effects_.push_back(Forward{node, std::move(wanted)});
    }
    touched.push_back(key);
  }
  for (Key key : touched) forget_if_done(key);
}

std::optional<LeaseQueue::Allocation> LeaseQueue::allocate(const ResourceSet& need) {
  if (!account_.can_grant(need)) return std::nullopt;
  std::optional<std::vector<int>> ids = gpus_.take(need.gpu);
  if (!ids) return std::nullopt;  // enough GPUs in sum, but not in one piece
  if (!account_.try_grant(need)) {
    gpus_.give_back(*ids, need.gpu);
    return std::nullopt;
  }
  return Allocation{need, std::move(*ids)};
}

void LeaseQueue::release(const Allocation& allocation, bool cpus_lent) {
  gpus_.give_back(allocation.gpu_ids, allocation.amount.gpu);
  ResourceSet amount = allocation.amount;
  if (cpus_lent) amount.cpu = 0;
  account_.give_back(amount);
}

std::optional<ProcessId> LeaseQueue::worker_for(const WorkerKind& kind) {
  if (auto it = idle_.find(kind); it != idle_.end()) return it->second.back();
  if (suspended_ < options_.max_suspended_workers) return std::nullopt;
  // LQ-2: so many processes wait that one more must share: the blocked one with the fewest leases.
  std::optional<ProcessId> best;
  std::size_t least = ~std::size_t{0};
  for (const auto& [id, worker] : workers_) {
    if (!worker.blocked || worker.ending || worker.leases.size() >= least || !(worker.kind == kind)) continue;
    best = id;
    least = worker.leases.size();
  }
  if (best && !suspended_warned_) {
    suspended_warned_ = true;
    effects_.push_back(Warn{kind.job, std::to_string(suspended_) +
                                          " workers of this node wait in get or wait: further tasks share "
                                          "their processes (max_suspended_workers)"});
  }
  return best;
}

void LeaseQueue::give_workers(TimePoint) {
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
  for (const auto& [kind, count] : without) {
    int& starting = starting_[kind];
    if (count <= starting) continue;
    effects_.push_back(NeedWorkers{kind, count - starting});
    starting = count;
  }
}

void LeaseQueue::grant(const Reservation& reservation, ProcessId id) {
  Waiting& request = requests_.at(reservation.request);
  Worker& worker = workers_.at(id);
  unlist(id, worker);
  const bool shared = !worker.leases.empty();
  const std::uint64_t lease_id = next_lease_++;
  worker.leases.insert(lease_id);
  const ProcessId requester = request.wanted.requester;
  leases_[lease_id] = {requester, id, reservation.allocation, false};
  request.reserved--;
  // The origin counts it before the requester, behind it, can have used it up and ask again: that wish would be taken
  // for this.
  if (!is_origin(request))
    effects_.push_back(CountAtOrigin{requester.node, {requester, request.wanted.request_id, options_.node, 1, 0}});
  effects_.push_back(Granted{
      requester, {request.wanted.request_id, lease_id, id, worker.pid, reservation.allocation.gpu_ids, shared}});
  forget_if_done(reservation.request);
}

// ---------------------------------------------------------------------------------------------------------------- time

void LeaseQueue::give_back_forwarded(TimePoint now) {
  std::vector<Key> touched;
  for (auto& [key, request] : requests_) {
    if (is_origin(request) || request.wanted.wanted == 0 || now < request.since + options_.give_back_after) continue;
    const ProcessId requester = request.wanted.requester;
    effects_.push_back(
        CountAtOrigin{requester.node, {requester, request.wanted.request_id, options_.node, 0, request.wanted.wanted}});
    request.wanted.wanted = 0;
    touched.push_back(key);
  }
  for (Key key : touched) forget_if_done(key);
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
  for (auto& [key, request] : requests_) {
    if (request.warned || request.wanted.wanted == 0 || request.reason.empty() ||
        now < request.since + options_.warn_after)
      continue;
    request.warned = true;
    effects_.push_back(Warn{request.wanted.lease_class.job, request.reason});
  }
  for (auto it = actor_waits_.begin(); it != actor_waits_.end();) {
    if (now < it->since + options_.actor_wait) {
      ++it;
      continue;
    }
    effects_.push_back(ActorNotAdmitted{it->actor, it->restarts,
                                        "node " + std::to_string(options_.node) + " has " +
                                            account_.available().to_string() + " free, the actor needs " +
                                            it->need.to_string()});
    it = actor_waits_.erase(it);
  }
  settle(now);
}

std::optional<TimePoint> LeaseQueue::next_deadline() const {
  std::optional<TimePoint> next;
  auto offer = [&](TimePoint t) { if (!next || t < *next) next = t; };
  for (const auto& [key, request] : requests_) {
    if (request.wanted.wanted == 0) continue;
    if (!is_origin(request)) offer(request.since + options_.give_back_after);
    if (request.awaits_node_until) offer(*request.awaits_node_until);
    if (!request.warned && !request.reason.empty()) offer(request.since + options_.warn_after);
  }
  if (guessed_at_) offer(*guessed_at_ + options_.guess_life);
  for (const ActorWait& wait : actor_waits_) offer(wait.since + options_.actor_wait);
  return next;
}

}  // namespace troupe::sched

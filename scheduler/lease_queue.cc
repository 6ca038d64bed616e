#include "scheduler/lease_queue.h"

#include <algorithm>

namespace troupe::sched {
namespace {

std::uint32_t delegated_total(const std::map<std::uint32_t, std::uint32_t>& delegated) {
  std::uint32_t total = 0;
  for (const auto& [node, count] : delegated) total += count;
  return total;
}

}  // namespace

WorkerKind worker_kind(JobId job, const RuntimeEnv& env, std::vector<int> gpu_ids) {
  return {job, env.env_vars, env.working_dir, std::move(gpu_ids)};
}

LeaseQueue::LeaseQueue(LeaseQueueOptions options)
    : options_(std::move(options)),
      account_(options_.total),
      gpus_(static_cast<int>((options_.total.gpu + kUnit - 1) / kUnit)) {
  self_.node = options_.node;
  self_.total = self_.available = options_.total;
  self_.labels = options_.labels;
  view_.put(self_);
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
    requests_.emplace(next_key_++, std::move(request));
  }
  const Key key = place->second;
  Waiting& request = requests_.at(key);
  request.wanted.bytes_by_node = wanted.bytes_by_node;
  const std::uint32_t delegated = delegated_total(request.delegated);
  const std::uint32_t under_way = request.reserved + delegated;
  if (request.wanted.wanted == 0) request.since = now;
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
  const std::uint32_t granted = std::min(counted.granted, delegated->second);
  delegated->second -= granted;
  const std::uint32_t back = std::min(counted.given_back, delegated->second);
  delegated->second -= back;
  if (delegated->second == 0) request.delegated.erase(delegated);
  if (back > 0) {
    if (request.wanted.wanted == 0) request.since = now;
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
  if (account_.available().cpu < 0) {
    returned(lease_id, now);
    return 0;
  }
  // A new number: what the worker refuses under the old one may be on its way to it still.
  const std::uint64_t renewed = next_lease_++;
  auto lease = leases_.extract(it);
  lease.key() = renewed;
  if (auto worker = workers_.find(lease.mapped().worker); worker != workers_.end()) {
    worker->second.leases.erase(lease_id);
    worker->second.leases.insert(renewed);
  }
  leases_.insert(std::move(lease));
  return renewed;
}

void LeaseQueue::refuse(Key key, ErrorRecord error) {
  const Waiting& request = requests_.at(key);
  effects_.push_back(Refused{request.wanted.requester, {request.wanted.request_id, std::move(error)}});
  forget(key);
}

void LeaseQueue::drop_reservations(Key key, std::uint32_t count) {
  for (auto it = reservations_.end(); count > 0 && it != reservations_.begin();) {
    --it;
    if (it->second.request != key) continue;
    release(it->second.allocation, false);
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
  requests_.erase(it);
}

// ------------------------------------------------------------------------------------------------------------- workers

void LeaseQueue::make_idle(ProcessId id, Worker& worker, TimePoint now) {
  worker.idle = true;
  worker.idle_since = now;
  idle_[worker.kind].push_back(id);
}

void LeaseQueue::unlist(ProcessId id, Worker& worker) {
  if (!worker.idle) return;
  worker.idle = false;
  auto it = idle_.find(worker.kind);
  std::erase(it->second, id);
  if (it->second.empty()) idle_.erase(it);
}

void LeaseQueue::worker_ready(ProcessId id, std::int32_t pid, const WorkerKind& kind, TimePoint now) {
  if (auto it = starting_.find(kind); it != starting_.end() && --it->second <= 0) starting_.erase(it);
  Worker& worker = workers_[id];
  worker.kind = kind;
  worker.pid = pid;
  make_idle(id, worker, now);
  settle(now);
}

void LeaseQueue::worker_failed(const WorkerKind& kind, std::optional<ErrorRecord> error, TimePoint now) {
  if (auto it = starting_.find(kind); it != starting_.end() && --it->second <= 0) starting_.erase(it);
  if (error) {
    auto it =
        std::find_if(reservations_.begin(), reservations_.end(), [&](const auto& r) { return r.second.kind == kind; });
    if (it != reservations_.end()) refuse(it->second.request, std::move(*error));
  }
  settle(now);
}

void LeaseQueue::worker_blocked(ProcessId id, std::uint64_t lease_id, bool blocked, TimePoint now) {
  auto it = leases_.find(lease_id);
  if (it == leases_.end() || it->second.worker != id || it->second.cpus_lent == blocked) return;
  it->second.cpus_lent = blocked;
  if (blocked) account_.lend_cpu(it->second.allocation.amount.cpu);
  else account_.reclaim_cpu(it->second.allocation.amount.cpu);
  if (auto worker = workers_.find(id); worker != workers_.end()) update_blocked(worker->second);
  settle(now);
}

void LeaseQueue::update_blocked(Worker& worker) {
  const bool blocked = std::any_of(worker.leases.begin(), worker.leases.end(),
                                   [&](std::uint64_t id) { return leases_.at(id).cpus_lent; });
  if (blocked != worker.blocked) suspended_ += blocked ? 1 : -1;
  worker.blocked = blocked;
}

bool LeaseQueue::take_worker(ProcessId id) {
  auto it = workers_.find(id);
  if (it == workers_.end() || !it->second.idle) return false;
  unlist(id, it->second);
  workers_.erase(it);
  return true;
}

std::optional<ProcessId> LeaseQueue::take_worker(const WorkerKind& kind) {
  auto it = idle_.find(kind);
  if (it == idle_.end()) return std::nullopt;
  const ProcessId id = it->second.back();
  take_worker(id);
  return id;
}

std::size_t LeaseQueue::idle_count(const WorkerKind& kind) const {
  auto it = idle_.find(kind);
  return it == idle_.end() ? 0 : it->second.size();
}

std::vector<ProcessId> LeaseQueue::surplus(std::size_t keep, TimePoint since) const {
  std::vector<ProcessId> result;
  for (const auto& [kind, ids] : idle_) {
    const std::size_t kept = kind.plain() ? keep : 0;
    for (std::size_t i = 0; i + kept < ids.size(); ++i)
      if (workers_.at(ids[i]).idle_since < since) result.push_back(ids[i]);
  }
  return result;
}

void LeaseQueue::end_lease(std::uint64_t lease_id, TimePoint now) {
  auto it = leases_.find(lease_id);
  if (it == leases_.end()) return;
  const Lease lease = std::move(it->second);
  leases_.erase(it);
  release(lease.allocation, lease.cpus_lent);
  auto worker = workers_.find(lease.worker);
  if (worker == workers_.end()) return;
  worker->second.leases.erase(lease_id);
  update_blocked(worker->second);
  if (!worker->second.leases.empty()) return;
  if (!worker->second.ending) make_idle(lease.worker, worker->second, now);
}

// -------------------------------------------------------------------------------------------------------------- actors

void LeaseQueue::admit_actor(ActorId actor, std::int32_t restarts, JobId job, const ResourceSet& need, TimePoint now) {
  actor_waits_.push_back({actor, restarts, job, need, now});
  settle(now);
}

void LeaseQueue::actor_gone(ActorId actor, std::int32_t restarts, TimePoint now) {
  std::erase_if(actor_waits_, [&](const ActorWait& wait) { return wait.actor == actor && wait.restarts == restarts; });
  if (auto it = actors_.find({actor, restarts}); it != actors_.end()) {
    release(it->second.allocation, false);
    actors_.erase(it);
  }
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
    if (lease.requester != process) continue;
    auto worker = workers_.find(lease.worker);
    if (worker == workers_.end() || worker->second.ending) continue;
    worker->second.ending = true;
    effects_.push_back(EndWorker{lease.worker, "the process that had submitted its task died"});
  }
}

void LeaseQueue::process_died(ProcessId process, TimePoint now) {
  drop_requester(process);
  if (auto it = workers_.find(process); it != workers_.end()) {
    unlist(process, it->second);
    it->second.ending = true;
    const std::set<std::uint64_t> leases = it->second.leases;
    for (std::uint64_t lease : leases) end_lease(lease, now);
    workers_.erase(process);
  }
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
  }
  settle(now);
}

void LeaseQueue::job_ended(JobId job, TimePoint now) {
  std::vector<Key> ended;
  for (const auto& [key, request] : requests_) if (request.wanted.lease_class.job == job) ended.push_back(key);
  for (Key key : ended) forget(key);
  std::erase_if(actor_waits_, [&](const ActorWait& wait) { return wait.job == job; });
  for (auto it = starting_.begin(); it != starting_.end();)
    it = it->first.job == job ? starting_.erase(it) : std::next(it);
  last_requester_.erase(job);
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

// --------------------------------------------------------------------------------------------------------------- state

std::uint64_t LeaseQueue::pending() const {
  std::uint64_t count = actor_waits_.size();
  for (const auto& [key, request] : requests_) count += request.wanted.wanted;
  return count;
}

std::string LeaseQueue::worker_state(ProcessId worker) const {
  auto it = workers_.find(worker);
  if (it == workers_.end()) return {};
  return it->second.blocked ? "BLOCKED" : it->second.leases.empty() ? "IDLE" : "LEASED";
}

std::string LeaseQueue::audit() const {
  ResourceSet sum = account_.available();
  auto add = [&](const Allocation& allocation, bool cpus_lent) {
    ResourceSet amount = allocation.amount;
    if (cpus_lent) amount.cpu = 0;
    sum.add(amount);
  };
  for (const auto& [id, r] : reservations_) add(r.allocation, false);
  for (const auto& [id, lease] : leases_) add(lease.allocation, lease.cpus_lent);
  for (const auto& [id, actor] : actors_) add(actor.allocation, false);
  if (!(sum == account_.total()))
    return "LQ-1: the parts sum to " + sum.to_string() + ", not " + account_.total().to_string();
  int blocked = 0;
  for (const auto& [id, worker] : workers_) {
    blocked += worker.blocked;
    if (worker.idle && !worker.leases.empty()) return "a worker is idle and leased";
    for (std::uint64_t lease : worker.leases) if (!leases_.contains(lease)) return "a worker has a lease that is gone";
  }
  if (blocked != suspended_) return "the count of blocked workers is wrong";
  for (const auto& [id, r] : reservations_)
    if (!requests_.contains(r.request)) return "LQ-3: a reservation without a request";
  for (const auto& [key, id] : keys_) if (!requests_.contains(id)) return "a key without a request";
  return {};
}

}  // namespace troupe::sched

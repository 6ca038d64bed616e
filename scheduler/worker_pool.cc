#include "scheduler/worker_pool.h"

#include <algorithm>
#include <utility>

namespace troupe::sched {

WorkerKind worker_kind(JobId job, const RuntimeEnv& env, std::vector<int> gpu_ids) {
  return {job, env.env_vars, env.working_dir, std::move(gpu_ids)};
}

// ------------------------------------------------------------------------------------------------------------ starting

int WorkerPool::to_start(const WorkerKind& kind, int wanted) {
  int& starting = starting_[kind];
  if (wanted <= starting) return 0;
  return wanted - std::exchange(starting, wanted);
}

void WorkerPool::not_coming(const WorkerKind& kind) {
  if (auto it = starting_.find(kind); it != starting_.end() && --it->second <= 0) starting_.erase(it);
}

void WorkerPool::ready(ProcessId id, std::int32_t pid, const WorkerKind& kind, TimePoint now, WorkerPast past) {
  not_coming(kind);
  Worker& worker = workers_[id];
  worker.kind = kind;
  worker.pid = pid;
  worker.past = past;
  make_idle(id, worker, now);
}

void WorkerPool::job_ended(JobId job) {
  std::erase_if(starting_, [job](const auto& starting) { return starting.first.job == job; });
}

// -------------------------------------------------------------------------------------------------------------- leases

void WorkerPool::make_idle(ProcessId id, Worker& worker, TimePoint now) {
  worker.idle = true;
  worker.idle_since = now;
  idle_[worker.kind].push_back(id);
  if (worker.past == WorkerPast::kNothing) ++fresh_[worker.kind];
}

void WorkerPool::unlist(ProcessId id, Worker& worker) {
  if (!worker.idle) return;
  worker.idle = false;
  auto it = idle_.find(worker.kind);
  std::erase(it->second, id);
  if (it->second.empty()) idle_.erase(it);
  if (worker.past != WorkerPast::kNothing) return;
  if (auto fresh = fresh_.find(worker.kind); --fresh->second == 0) fresh_.erase(fresh);
}

std::optional<ProcessId> WorkerPool::idle_of(const WorkerKind& kind) const {
  auto it = idle_.find(kind);
  if (it == idle_.end()) return std::nullopt;
  const auto used = std::find_if(it->second.rbegin(), it->second.rend(),
                                 [this](ProcessId id) { return workers_.at(id).past == WorkerPast::kTasks; });
  return used != it->second.rend() ? *used : it->second.back();
}

std::optional<ProcessId> WorkerPool::blocked_of(const WorkerKind& kind) const {
  std::optional<ProcessId> best;
  std::size_t least = ~std::size_t{0};
  for (const auto& [id, worker] : workers_) {
    if (!worker.blocked || worker.ending || worker.leases.size() >= least || !(worker.kind == kind)) continue;
    best = id;
    least = worker.leases.size();
  }
  return best;
}

WorkerPool::Leased WorkerPool::lease(ProcessId id, std::uint64_t lease_id) {
  Worker& worker = workers_.at(id);
  unlist(id, worker);
  const bool shared = !worker.leases.empty();
  worker.leases.insert(lease_id);
  worker.past = WorkerPast::kTasks;
  return {worker.pid, shared};
}

void WorkerPool::lease_renewed(ProcessId id, std::uint64_t lease_id, std::uint64_t renewed) {
  auto it = workers_.find(id);
  if (it == workers_.end()) return;
  it->second.leases.erase(lease_id);
  it->second.leases.insert(renewed);
}

void WorkerPool::task_waits(ProcessId id, std::uint64_t lease_id, bool waits) {
  auto it = workers_.find(id);
  if (it == workers_.end()) return;
  if (waits) it->second.waiting.insert(lease_id);
  else it->second.waiting.erase(lease_id);
  update_blocked(it->second);
}

void WorkerPool::update_blocked(Worker& worker) {
  const bool blocked = !worker.waiting.empty();
  if (blocked != worker.blocked) blocked_ += blocked ? 1 : -1;
  worker.blocked = blocked;
}

void WorkerPool::lease_ended(ProcessId id, std::uint64_t lease_id, TimePoint now) {
  auto it = workers_.find(id);
  if (it == workers_.end()) return;
  Worker& worker = it->second;
  worker.leases.erase(lease_id);
  worker.waiting.erase(lease_id);
  update_blocked(worker);
  if (!worker.leases.empty()) return;
  if (!worker.ending) make_idle(id, worker, now);
}

bool WorkerPool::end(ProcessId id) {
  auto it = workers_.find(id);
  return it != workers_.end() && !std::exchange(it->second.ending, true);
}

// ------------------------------------------------------------------------------------------------------------- leaving

bool WorkerPool::take(ProcessId id) {
  auto it = workers_.find(id);
  if (it == workers_.end() || !it->second.idle) return false;
  unlist(id, it->second);
  workers_.erase(it);
  return true;
}

std::optional<ProcessId> WorkerPool::take(const WorkerKind& kind) {
  auto it = idle_.find(kind);
  if (it == idle_.end()) return std::nullopt;
  auto found = std::find_if(it->second.rbegin(), it->second.rend(),
                            [this](ProcessId id) { return workers_.at(id).past == WorkerPast::kNothing; });
  if (found == it->second.rend()) return std::nullopt;
  const ProcessId id = *found;
  take(id);
  return id;
}

std::set<std::uint64_t> WorkerPool::died(ProcessId id) {
  auto it = workers_.find(id);
  if (it == workers_.end()) return {};
  unlist(id, it->second);
  it->second.ending = true;
  return it->second.leases;
}

// --------------------------------------------------------------------------------------------------------------- state

std::size_t WorkerPool::idle_count(const WorkerKind& kind) const {
  auto it = idle_.find(kind);
  return it == idle_.end() ? 0 : it->second.size();
}

std::size_t WorkerPool::fresh_count(const WorkerKind& kind) const {
  auto it = fresh_.find(kind);
  return it == fresh_.end() ? 0 : it->second;
}

std::vector<ProcessId> WorkerPool::surplus(std::size_t keep, TimePoint since) const {
  std::vector<ProcessId> result;
  for (const auto& [kind, ids] : idle_) {
    const std::size_t kept = kind.plain() ? keep : 0, fresh = fresh_count(kind);
    std::size_t too_fresh = fresh > kept ? fresh - kept : 0;
    std::size_t too_used = ids.size() - fresh > kept ? ids.size() - fresh - kept : 0;
    for (ProcessId id : ids) {  // the ones that were used last stay
      const Worker& worker = workers_.at(id);
      std::size_t& too_many = worker.past == WorkerPast::kNothing ? too_fresh : too_used;
      if (too_many == 0) continue;
      --too_many;
      if (worker.idle_since < since) result.push_back(id);
    }
  }
  return result;
}

std::string WorkerPool::state(ProcessId id) const {
  auto it = workers_.find(id);
  if (it == workers_.end()) return {};
  return it->second.blocked ? "BLOCKED" : it->second.leases.empty() ? "IDLE" : "LEASED";
}

std::string WorkerPool::audit(const std::set<std::uint64_t>& leases) const {
  int blocked = 0;
  for (const auto& [id, worker] : workers_) {
    blocked += worker.blocked;
    if (worker.idle && !worker.leases.empty()) return "WPL-1: a worker is idle and leased";
    if (!worker.idle && !worker.ending && worker.leases.empty()) return "WPL-1: a worker is neither idle nor leased";
    for (std::uint64_t lease : worker.leases)
      if (!leases.contains(lease)) return "WPL-1: a worker has a lease that is gone";
    for (std::uint64_t lease : worker.waiting)
      if (!worker.leases.contains(lease)) return "WPL-2: a task waits whose lease is gone";
  }
  if (blocked != blocked_) return "WPL-2: the count of blocked workers is wrong";
  std::map<WorkerKind, std::size_t> fresh;
  for (const auto& [id, worker] : workers_)
    if (worker.idle && worker.past == WorkerPast::kNothing) ++fresh[worker.kind];
  if (fresh != fresh_) return "WPL-5: the count of workers for actors is wrong";
  return {};
}

}  // namespace troupe::sched

#include "core/caller/lease_pool.h"

#include <algorithm>
#include <map>

#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
constexpr auto kLeaseIdle = std::chrono::milliseconds(10);
// TS-8. Below the time for which a node keeps an actor that waits (LeaseQueueOptions::actor_wait); a renewal costs a
// round trip to the daemon.
constexpr auto kLeaseTerm = std::chrono::milliseconds(200);
constexpr std::size_t kDepthMax = 512;
constexpr double kQueueAheadUs = 4000;        // a lease's queue is worth at most about this much time
constexpr double kShortTaskUs = 1000;
constexpr std::uint32_t kWantedMax = 1024, kWantedMaxFree = 64;  // free: tasks that ask for no CPU start a process each
constexpr std::size_t kSweepMin = 64;
}  // namespace

// ------------------------------------------------------------------------------------------------------------- classes

ClassState& LeasePool::class_of(const TaskOptions* options) {
  if (!options && default_class_) return *default_class_;
  static const TaskOptions defaults;
  const TaskOptions& from = options ? *options : defaults;
  wire::LeaseClass wanted{runtime_.welcome().job, from.resources, from.scheduling, from.labels, from.env};
  if (wanted.resources.cpus == kUnset) wanted.resources.cpus = 1;
  if (last_class_ && last_class_->lease_class == wanted) return *last_class_;
  ClassState* found = nullptr;
  for (auto& [id, one] : classes_)
    if (one->lease_class == wanted) found = one.get();
  if (!found) {
    forget_unused();
    auto made = std::make_unique<ClassState>();
    made->request_id = ++last_request_;
    made->lease_class = std::move(wanted);
    found = made.get();
    classes_.emplace(made->request_id, std::move(made));
  }
  if (!options) default_class_ = found;
  return *(last_class_ = found);
}

void LeasePool::join_class(PendingCall& call, const TaskOptions* options) {
  call.lease_class = &class_of(options);
  ++call.lease_class->calls;
}

/// TS-4. Amortised: each time that the classes have doubled.
void LeasePool::forget_unused() {
  if (classes_.size() < sweep_at_) return;
  last_class_ = nullptr;
  std::erase_if(classes_, [&](const auto& one) {
    const ClassState& of = *one.second;
    return &of != default_class_ && of.calls == 0 && of.leases.empty() && of.announced == 0;
  });
  sweep_at_ = std::max(kSweepMin, 2 * classes_.size());
}

// ------------------------------------------------------------------------------------------------------------- pushing

void LeasePool::enqueue(PendingCall& call) {
  call.state = PendingCall::State::kQueued;
  call.lease_class->queue.push_back(call);
  pump(*call.lease_class);
}

void LeasePool::put_back(const std::vector<PendingCall*>& calls) {
  for (auto at = calls.rbegin(); at != calls.rend(); ++at) {
    PendingCall& call = **at;
    call.state = PendingCall::State::kQueued;
    CallList& queue = call.lease_class->queue;
    PendingCall* next = queue.front();  // what the same worker gave back before, in another frame, stays before it
    while (next && next->target == call.target && next->number < call.number) next = next->next;
    queue.insert(call, next);
  }
}

void LeasePool::remove_queued(PendingCall& call) { call.lease_class->queue.remove(call); }

std::size_t LeasePool::depth(const ClassState& of, const LeaseState& lease) const {
  if (lease.shared || of.run_us < 0 || of.run_us >= kShortTaskUs) return 1;
  return std::clamp<std::size_t>(std::size_t(kQueueAheadUs / std::max(of.run_us, 1.0)), 2, kDepthMax);
}

void LeasePool::pump(ClassState& of) {
  while (!of.queue.empty() && !of.leases.empty()) {
    LeaseState* best = nullptr;
    for (auto& lease : of.leases)
      if (!lease->paused && !lease->spent && lease->sent.size() < depth(of, *lease) &&
          (!best || lease->sent.size() < best->sent.size())) {
        best = lease.get();
        if (best->sent.empty()) break;
      }
    if (!best) break;
    PendingCall& call = *of.queue.pop_front();
    if (ErrorPtr too_large = calls_.check_size(call)) {
      calls_.fail(call, too_large);
      continue;
    }
    best->sent.push_back(call);
    best->idle_since = exec::kNever;
    call.lease = best;
    calls_.send(call, best->worker, {best->id, best->shared, &best->gpu_ids});
    if (call.info && call.info->timeout != kForever) sent_(call);
  }
  announce(of);
}

std::uint32_t LeasePool::wanted_of(const ClassState& of) const {
  const std::uint32_t cap = of.lease_class.resources.cpus > 0 ? kWantedMax : kWantedMaxFree;
  const std::uint32_t room = cap > of.leases.size() ? cap - std::uint32_t(of.leases.size()) : 0;
  return std::uint32_t(std::min<std::size_t>(of.queue.size(), room));
}

void LeasePool::announce(ClassState& of) {
  const std::uint32_t wanted = wanted_of(of);
  const bool worth =
      wanted == 0 ? of.announced != 0 : (of.announced == 0 || wanted >= 2 * of.announced || 2 * wanted <= of.announced);
  if (worth) tell_wanted(of, wanted);
}

void LeasePool::repeat_wishes() {
  for (auto& [id, of] : classes_)
    if (of->announced > 0) tell_wanted(*of, wanted_of(*of));
}

void LeasePool::tell_wanted(ClassState& of, std::uint32_t wanted) {
  of.announced = wanted;
  wire::LeaseWanted message{runtime_.self(), of.request_id, of.lease_class, wanted, 0, {}, 0};
  if (of.queue.front()) {
    std::map<std::uint32_t, std::uint64_t> bytes;
    for (const auto& dependency : of.queue.front()->dependencies) {
      const detail::Value& value = entry_of(dependency).value;
      if (value.large_body) bytes[buffer_of(value.large_body).desc.node] += value.large_body->size();
      if (value.attachments)
        for (const auto& buffer : value.attachments->buffers) bytes[buffer_of(buffer).desc.node] += buffer->size();
    }
    message.bytes_by_node.assign(bytes.begin(), bytes.end());
  }
  runtime_.frames().notice(runtime_.daemon(), wire::Method::kLeaseWanted, message);
}

// -------------------------------------------------------------------------------------------------------------- leases

void LeasePool::on_granted(const wire::LeaseGranted& granted) {
  auto found = classes_.find(granted.request_id);
  if (found == classes_.end()) return give_back(granted.lease_id, granted.worker);  // TS-4
  ClassState& of = *found->second;
  if (of.announced > 0) --of.announced;
  if (runtime_.frames().is_dead(granted.worker)) {
    give_back(granted.lease_id, granted.worker);
    return announce(of);  // the daemon counts this one as granted
  }
  auto lease = std::make_unique<LeaseState>();
  lease->id = granted.lease_id;
  lease->worker = granted.worker;
  lease->of = &of;
  lease->shared = granted.shared;
  lease->gpu_ids = granted.gpu_ids;
  lease->idle_since = lease->since = runtime_.now();
  of.leases.push_back(std::move(lease));
  pump(of);
  start_idle_timer();
}

void LeasePool::on_refused(const wire::LeaseRefused& refused) {
  auto found = classes_.find(refused.request_id);
  if (found == classes_.end()) return;
  ClassState& of = *found->second;
  of.announced = 0;
  const ErrorPtr error = Error::make(refused.error);
  while (PendingCall* call = of.queue.pop_front()) calls_.fail(*call, error);
}

void LeasePool::give_back(const LeaseState& lease) { give_back(lease.id, lease.worker); }

void LeasePool::give_back(std::uint64_t lease, ProcessId worker) {
  runtime_.frames().notice(daemon_of(worker.node), wire::Method::kLeaseReturned, wire::LeaseReturned{lease});
}

void LeasePool::start_idle_timer() {
  if (std::exchange(idle_timer_, true)) return;
  runtime_.add_timer(runtime_.now() + kLeaseIdle, [this] { check_idle(); });
}

void LeasePool::check_idle() {
  idle_timer_ = false;
  const auto now = runtime_.now();
  bool more = false;
  for (auto& [id, of] : classes_) {
    std::erase_if(of->leases, [&](auto& lease) {
      if (!lease->sent.empty() || lease->idle_since == exec::kNever) return false;
      if (now - lease->idle_since < kLeaseIdle) {
        more = true;
        return false;
      }
      give_back(*lease);
      return true;
    });
  }
  if (more) start_idle_timer();
}

void LeasePool::on_replied(PendingCall& call, const ReplyHead& head) {
  ClassState& of = *call.lease_class;
  if (head.run_us != kNotRun) {
    const double run_us = head.run_us;
    of.run_us = of.run_us < 0 ? run_us : of.run_us * 0.9 + run_us * 0.1;
  }
  LeaseState* lease = std::exchange(call.lease, nullptr);
  if (!lease) return;
  lease->paused = false;
  lease->spent |= head.lent != 0 || runtime_.now() - lease->since >= kLeaseTerm;
  lease->sent.remove(call);
  if (lease->sent.empty()) emptied(*lease);
}

void LeasePool::emptied(LeaseState& lease) {
  if (lease.spent) return renew(lease);
  lease.idle_since = runtime_.now();
  start_idle_timer();
}

// Numbers of leases are those of one daemon: another node may have granted one of the same number.
LeaseState* LeasePool::find(std::uint64_t class_id, std::uint64_t lease, ProcessId worker) {
  auto found = classes_.find(class_id);
  if (found == classes_.end()) return nullptr;
  for (const auto& one : found->second->leases)
    if (one->id == lease && one->worker == worker) return one.get();
  return nullptr;
}

void LeasePool::renew(LeaseState& lease) {
  auto done = [this, of = lease.of->request_id, id = lease.id,
               worker = lease.worker](Result<wire::LeaseRenewed> reply) {
    const std::uint64_t number = reply.ok() ? reply->lease_id : 0;
    if (LeaseState* known = find(of, id, worker)) renewed(*known, number);
    else if (number != 0) give_back(number, worker);  // its worker died, or the class is forgotten
  };
  runtime_.requests().send<wire::LeaseRenewed>(daemon_of(lease.worker.node), wire::Method::kLeaseRenew,
                                               wire::LeaseRenew{lease.id}, std::move(done));
}

void LeasePool::renewed(LeaseState& lease, std::uint64_t number) {
  ClassState& of = *lease.of;
  if (number == 0) {
    std::erase_if(of.leases, [&](const auto& one) { return one.get() == &lease; });
  } else {
    lease.id = number;
    lease.spent = false;
    lease.idle_since = lease.since = runtime_.now();
    start_idle_timer();
  }
  pump(of);
}

void LeasePool::on_recalled(PendingCall& call) {
  LeaseState& lease = *std::exchange(call.lease, nullptr);
  lease.sent.remove(call);
  lease.paused = !lease.sent.empty();
  if (lease.sent.empty()) emptied(lease);
}

void LeasePool::pause(PendingCall& call) {
  if (call.lease) call.lease->paused = true;
}

std::vector<LeasePool::Lost> LeasePool::take_lost(const std::function<bool(ProcessId)>& dead, bool tell_daemon) {
  std::vector<Lost> lost;
  for (auto& [id, of] : classes_) {
    std::erase_if(of->leases, [&, its_class = of.get()](auto& lease) {
      if (!dead(lease->worker)) return false;
      if (tell_daemon) give_back(*lease);
      Lost& one = lost.emplace_back(Lost{lease->worker, its_class, {}});
      while (PendingCall* call = lease->sent.pop_front()) {
        call->lease = nullptr;
        one.calls.push_back(call);
      }
      return true;
    });
  }
  return lost;
}

}  // namespace troupe::worker

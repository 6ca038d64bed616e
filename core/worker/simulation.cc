// A core without a machine around it, for the simulator: how it is made, driven and taken apart.
#include <random>

#include "core/base/random.h"
#include "core/worker/actor_clients.h"
#include "core/worker/buffers.h"
#include "core/worker/core.h"
#include "core/worker/host.h"
#include "core/worker/objects.h"
#include "core/worker/outlet.h"
#include "core/worker/store_link.h"
#include "core/worker/streams.h"
#include "core/worker/task_submitter.h"
#include "core/worker/transit.h"

namespace troupe::worker {

std::unique_ptr<Core> Core::simulate(CoreOptions options, wire::Welcome welcome, Outlet& outlet) {
  std::unique_ptr<Core> core(new Core(std::move(options)));
  core->outlet_ = &outlet;
  core->welcome_ = std::move(welcome);
  core->objects_->set_self(core->welcome_.self);
  return core;
}

exec::Deadline Core::simulated_now() const { return outlet_->now(); }

exec::Deadline Core::deadline_after(Duration timeout) const {
  if (!outlet_) return exec::deadline_after(timeout);
  if (timeout <= Duration::zero()) return now();
  return exec::kNever - now() <= timeout ? exec::kNever : now() + timeout;
}

double Core::chance() {
  if (outlet_) return outlet_->chance();
  static thread_local Random random{std::random_device{}()};
  return random.unit();
}

exec::Deadline Core::step() {
  run_timers_and_callbacks();
  CoreLock lock(*this);
  return timers_.next();
}

std::size_t Core::let_go() {
  const ErrorPtr over = make_error<CancelledError>("the simulated process is over");
  auto everybody = [](ProcessId) { return true; };
  {
    CoreLock lock(*this);
    shutdown_reason_ = over;
    shutting_down_ = true;
    host_->let_go();
    requests_.fail_all(everybody, over);
    actors_->let_go(over);
    tasks_->let_go();
    std::vector<std::uint64_t> open;
    calls_->for_each([&](PendingCall& call) { open.push_back(call.id); });
    for (std::uint64_t id : open)
      if (PendingCall* call = calls_->find(id)) calls_->fail(*call, over);
    transit_->let_go();
    objects_->let_go();
    callbacks_.clear();
    timers_ = {};
  }
  CoreLock lock(*this);
  return objects_->live() + calls_->open() + actors_->known();
}

}  // namespace troupe::worker

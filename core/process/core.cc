#include "core/process/core.h"

namespace troupe::worker {

Core::Core(Identity identity, const Surroundings& surroundings, net::Endpoint* endpoint, Executors& executors)
    : Runtime(std::move(identity), surroundings, endpoint, *this),
      owner_(*this),
      caller_(*this, owner_),
      host_(*this, owner_, caller_, executors),
      dispatcher_(*this) {
  caller_.calls().budget().set_limit(welcome().call_memory);
}

Core::~Core() = default;

void Core::begin_shutdown(ErrorPtr why) {
  CoreLock lock(*this);
  if (!set_shutting_down(std::move(why))) return;
  requests().fail_all([](ProcessId) { return true; }, shutdown_reason());
  owner_.begin_shutdown(shutdown_reason());
  caller_.begin_shutdown(shutdown_reason());
  host_.shutdown();
}

std::size_t Core::take_apart() {
  const ErrorPtr over = make_error<CancelledError>("the process is over");
  {
    CoreLock lock(*this);
    set_shutting_down(over);
    host_.clear();
    requests().fail_all([](ProcessId) { return true; }, over);
    caller_.clear(over);
    owner_.clear();
    service_queue().clear();
  }
  CoreLock lock(*this);
  return objects().live() + calls().open() + actors().known();
}

Core& require_core() {
  Core* core = current_core();
  if (!core) throw InvalidArgumentError("this is possible only inside troupe::run");
  return *core;
}

}  // namespace troupe::worker

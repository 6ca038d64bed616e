#include "core/runtime/runtime.h"

#include "core/base/log.h"

namespace troupe::worker {

Runtime::Runtime(Identity identity, const Surroundings& surroundings, net::Endpoint* endpoint, net::Handler& handler)
    : identity_(std::move(identity)),
      surroundings_(surroundings),
      endpoint_(endpoint),
      handler_(handler),
      queue_(mutex_, surroundings.clock, surroundings.service),
      requests_(*this),
      frames_(identity_.welcome.self, mutex_, surroundings, queue_, requests_, handler) {}

bool Runtime::set_shutting_down(ErrorPtr why) {
  if (shutting_down()) return false;
  shutdown_reason_ = std::move(why);
  shutting_down_.store(true, std::memory_order_release);
  return true;
}

void Runtime::warn(const std::string& text) { write_log(LogLevel::kWarn, "{}", text); }

void Runtime::bad_frame(std::string_view what, ProcessId source) {
  write_log(LogLevel::kError, "{} of process {} does not decode, and is dropped", what, to_string(source));
}

}  // namespace troupe::worker

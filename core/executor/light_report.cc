#include "core/executor/light_report.h"

#include <troupe/detail/registry.h>

#include "core/runtime/runtime.h"

namespace troupe::worker {

namespace {
constexpr auto kReportDelay = std::chrono::milliseconds(2);
}

void LightReport::started(ActorId actor, std::uint32_t constructor) {
  by_constructor_[constructor].started.push_back(actor);
  send_soon();
}

void LightReport::ended(ActorId actor) {
  by_constructor_[detail::FunctionNode::kUnregistered].ended.push_back(actor);
  send_soon();
}

void LightReport::send_soon() {
  if (std::exchange(timer_, true)) return;
  runtime_.add_timer(runtime_.deadline_after(kReportDelay), [this] {
    timer_ = false;
    send();
  });
}

void LightReport::send() {
  for (auto& [constructor, report] : std::exchange(by_constructor_, {})) {
    report.process = runtime_.self();
    report.job = runtime_.welcome().job;
    report.name_space = runtime_.welcome().name_space;
    if (const detail::FunctionNode* node = detail::function_at(constructor))
      report.class_name = detail::class_name(*node);
    runtime_.frames().notice(kHead, wire::Method::kLightActors, report);
  }
}

}  // namespace troupe::worker

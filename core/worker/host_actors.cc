// The actors that a Host holds: made on the head's word or directly, told to the head when they are light, ended, and their
// threads waited for. How calls reach them is in host.cc, what an actor does with them in hosted_actor.cc.
#include <algorithm>
#include <utility>

#include "core/worker/core.h"
#include "core/worker/host.h"
#include "core/worker/hosted_actor.h"
#include "core/worker/waits.h"

namespace troupe::worker {

namespace {
constexpr auto kLightReport = std::chrono::milliseconds(2);
}

void Host::construct(wire::ConstructActor message) {
  const ActorId id = message.spec.id;
  auto& place = actors_[id];
  if (place) return;
  place = std::make_unique<HostedActor>(*this, std::move(message));
  place->start();
}

void Host::construct_light(IncomingPtr call) {
  const ActorId id = call->head.actor;
  auto& place = actors_[id];
  if (place) return reply_error(*call, make_error<InvalidArgumentError>("the actor " + to_string(id) + " is here already"));
  if (!light_spec_) {
    auto spec = std::make_shared<wire::ActorSpec>();
    spec->job = core_.welcome().job;
    spec->name_space = core_.welcome().name_space;
    spec->isolation = Isolation::kLight;
    light_spec_ = std::move(spec);
  }
  note_begun(*call);
  light_report_[call->head.function].started.push_back(id);
  report_light_soon();
  place = std::make_unique<HostedActor>(*this, id, light_spec_, std::move(call));
  place->start();
}

void Host::light_ended(HostedActor& actor) {
  light_report_[detail::FunctionNode::kUnregistered].ended.push_back(actor.id());
  report_light_soon();
}

void Host::report_light_soon() {
  if (std::exchange(light_timer_, true)) return;
  core_.add_timer(core_.deadline_after(kLightReport), [this] {
    light_timer_ = false;
    for (auto& [constructor, report] : std::exchange(light_report_, {})) {
      report.process = core_.self();
      report.job = core_.welcome().job;
      report.name_space = core_.welcome().name_space;
      if (const detail::FunctionNode* node = detail::function_at(constructor)) report.class_name = detail::class_name(*node);
      core_.courier().notice(kHead, wire::Method::kLightActors, report);
    }
  });
}

void Host::interrupt_calls(HostedActor& actor, const ErrorPtr& error) {
  drop_admitted([&](const IncomingCall& call) { return call.head.actor == actor.id(); }, error);
  for (const auto& call : running_)
    if (call->running && call->running->actor == &actor) interrupt(*call->running, error);
}

void Host::handles_gone(ActorId id) {
  if (auto found = actors_.find(id); found != actors_.end()) found->second->end_when_idle();
}

void Host::end_actor(const wire::EndActor& message) {
  if (auto found = actors_.find(message.actor); found != actors_.end()) found->second->kill(message.cause, message.message);
}

void Host::exit_current_actor() {
  CallContext* context = current_context();
  if (!context || !context->actor) throw InvalidArgumentError("exit_actor is for methods of actors");
  context->exit_asked = true;
}

void Host::actor_ended(HostedActor& actor) {
  auto found = actors_.find(actor.id());
  if (found == actors_.end()) return;
  const bool own_process = !actor.light();
  // The thread that ends it may still be inside: it is destroyed when the lock is let go.
  {
    std::lock_guard lock(parting_mutex_);
    ++parting_;
  }
  core_.defer([this, dead = std::shared_ptr<HostedActor>(std::move(found->second))]() mutable {
    dead.reset();
    std::lock_guard lock(parting_mutex_);
    --parting_;
    parted_.notify_all();
  });
  actors_.erase(found);
  if (own_process) end_process();
}

void Host::adopt(std::thread thread, std::unique_ptr<exec::FiberThread> fibers) {
  std::lock_guard lock(parting_mutex_);
  adopted_.emplace_back(std::move(thread), std::move(fibers));
}

void Host::join_threads() {
  std::vector<HostedActor*> left;
  {
    CoreLock lock(core_);
    for (auto& [id, actor] : actors_) left.push_back(actor.get());
  }
  for (HostedActor* actor : left) actor->join_threads();
  decltype(adopted_) adopted;
  {
    std::unique_lock lock(parting_mutex_);
    parted_.wait(lock, [this] { return parting_ == 0; });  // those that end now: by their own threads, which return from it
    adopted.swap(adopted_);
  }
  for (auto& [thread, fibers] : adopted) thread.join();
}

}  // namespace troupe::worker

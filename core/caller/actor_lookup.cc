#include "core/caller/actor_lookup.h"

#include <fmt/format.h>

#include <optional>

#include "core/runtime/runtime.h"
#include "core/runtime/waits.h"

namespace troupe::worker {

void ActorLookup::ask(wire::NamedActor name, const std::string& class_name, Found found) {
  if (name.name_space.empty()) name.name_space = runtime_.welcome().name_space;
  auto answered = [this, name = name.name, class_name, found = std::move(found)](Result<wire::NamedActorReply> reply) {
    detail::HandlePtr handle;
    if (reply.ok()) handle = clients_.held_by_head(reply->handle);
    clients_.counts().name_answered();
    if (!reply.ok()) return found(reply.error_ptr());
    const std::string& is = client_of(handle).desc().class_name;
    if (is == class_name) return found(std::move(handle));
    found(make_error<InvalidArgumentError>(
        fmt::format("the actor named \"{}\" is a {}, not a {}", name, is, class_name)));
  };
  clients_.counts().flush();  // CAC-9
  clients_.counts().name_asked();
  runtime_.requests().send<wire::NamedActorReply>(kHead, wire::Method::kGetNamedActor, name, std::move(answered));
}

Result<detail::HandlePtr> ActorLookup::find(const wire::NamedActor& name, const std::string& class_name) {
  struct Search {
    std::optional<Result<detail::HandlePtr>> found;
    exec::Waiter* waiter = nullptr;
  };
  const auto search = std::make_shared<Search>();
  exec::Waiter waiter(runtime_);
  {
    CoreLock lock(runtime_);
    search->waiter = &waiter;
    ask(name, class_name, [search](Result<detail::HandlePtr> found) {
      search->found.emplace(std::move(found));
      if (search->waiter) search->waiter->notify();
    });
  }
  waiter.wait(exec::deadline_after(kActorAnswerTimeout));
  CoreLock lock(runtime_);
  search->waiter = nullptr;
  if (!search->found)
    return make_error<GetTimeoutError>("the head did not say which actor is named '" + name.name + "'");
  return std::move(*search->found);
}

}  // namespace troupe::worker

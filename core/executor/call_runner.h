// CallRunner: runs one call: decodes its arguments, calls the user's function, sends the items of a generator. What a
// call's function throws is caught here (callbacks: ServiceQueue; a retry predicate: TaskSubmitter).
//
// Thread rule: on the executor thread or fiber of the call, lock not held.
#pragma once
#include "core/executor/incoming.h"
#include "core/runtime/context.h"
#include <troupe/detail/invocation.h>

namespace troupe::worker {

class Host;
class HostedActor;
class Owner;
class Runtime;

class CallRunner {
 public:
  CallRunner(Runtime& runtime, Owner& owner, Host& host) : runtime_(runtime), owner_(owner), host_(host) {}

  /// Runs the call to its end and answers it. `actor`: null for tasks.
  void run(const IncomingPtr& call, HostedActor* actor);

 private:
  ErrorPtr invoke(IncomingCall& call, HostedActor* actor, CallContext& context, detail::Invocation& invocation);
  void stream_items(IncomingCall& call, detail::GeneratorBase& generator);
  ErrorPtr error_of_exception(const IncomingCall& call, const CallContext& context);

  Runtime& runtime_;
  Owner& owner_;
  Host& host_;
};

}  // namespace troupe::worker

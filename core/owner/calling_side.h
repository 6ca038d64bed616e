// CallingSide: what the owner of objects asks of the part that submits calls. core/caller implements it.
//
// Thread rule: lock held.
#pragma once
#include <cstdint>

#include "core/wire/messages.h"
#include <troupe/detail/counted.h>

namespace troupe::worker {

class ObjectEntry;
struct PendingCall;

class CallingSide {
 public:
  virtual ~CallingSide() = default;
  /// An argument of this call was settled.
  virtual void dependency_ready(PendingCall& call) = 0;
  /// Nobody holds this result of the call any more.
  virtual void result_unwanted(PendingCall& call, ObjectEntry& entry) = 0;
  /// The handle of an actor whose description came in a value. `wait` is set when the arrival must wait until the head
  /// has counted this process as a holder.
  virtual detail::HandlePtr handle(const wire::HandleDesc& desc, std::uint64_t arrival, bool& wait) = 0;
  virtual const wire::HandleDesc& describe(const detail::HandlePtr& handle) = 0;
};

}  // namespace troupe::worker

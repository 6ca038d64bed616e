// What an actor's handle says of the actor, and how it follows from the actor's options.
#pragma once
#include "core/wire/messages.h"

namespace troupe::wire {

/// Bits of HandleDesc::flags.
enum HandleFlag : std::uint8_t {
  kHandleOutOfOrder = 1,
  kHandleLight = 2,
  kHandleDetached = 4,
  kHandleHoldsGpu = 8,  // or a part of one
};

inline HandleDesc handle_of(const ActorSpec& spec) {
  HandleDesc handle;
  handle.actor = spec.id;
  handle.name = spec.name;
  handle.class_name = spec.class_name;
  handle.max_task_retries = spec.max_task_retries;
  handle.max_pending_calls = spec.max_pending_calls;
  handle.flags = static_cast<std::uint8_t>((spec.out_of_order ? kHandleOutOfOrder : 0) |
                                           (spec.isolation == Isolation::kLight ? kHandleLight : 0) |
                                           (spec.lifetime == Lifetime::kDetached ? kHandleDetached : 0) |
                                           (spec.resources.gpus > 0 ? kHandleHoldsGpu : 0));
  return handle;
}

}  // namespace troupe::wire

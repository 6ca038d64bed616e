// What lies inside a creation or a checkpoint, for all who keep it: the head, which counts and renames, and daemons,
// which pin (docs/decisions/015).
#pragma once
#include <type_traits>
#include <vector>

#include "core/wire/messages.h"

namespace troupe::wire {

/// Calls `see` with every value inside, in an order that is always the same. Desc: ActorSpec or Checkpoint.
template <class Desc, class See>
void each_value(Desc& desc, See&& see) {
  if constexpr (std::is_same_v<std::remove_const_t<Desc>, ActorSpec>) {
    see(desc.arguments);
    for (auto& value : desc.dependencies) see(value);
  } else {
    see(desc.state);
  }
  for (auto& ref : desc.refs) see(ref.value);
}

template <class Desc>
std::vector<BufferDesc> buffers_of(const Desc& desc) {
  std::vector<BufferDesc> buffers;
  each_value(
      desc, [&](const ValueDesc& value) { buffers.insert(buffers.end(), value.buffers.begin(), value.buffers.end()); });
  return buffers;
}

/// Are there refs or handles inside, which the creator holds until they are counted elsewhere?
inline bool creator_holds(const ActorSpec& spec) {
  bool any = false;
  each_value(spec, [&](const ValueDesc& value) { any = any || !value.refs.empty() || !value.handles.empty(); });
  return any;
}

/// May the actor need its arguments a second time, or in another process's absence?
inline bool may_come_back(const ActorSpec& spec) {
  return spec.max_restarts != 0 || spec.lifetime != Lifetime::kScoped;
}

inline KeptName name_of(const ActorSpec& spec) { return {spec.id, 0, 0}; }
inline KeptName name_of(const Checkpoint& checkpoint) {
  return {checkpoint.actor, checkpoint.restarts, checkpoint.number};
}

}  // namespace troupe::wire

// A buffer's name on the wire and in the store: the same three numbers.
#pragma once
#include <cstdint>

#include "core/wire/messages.h"
#include "objectstore/arena/buffer_id.h"

namespace troupe::node {

inline store::BufferId id_of(const wire::BufferDesc& desc) { return {desc.node, desc.slot, desc.generation}; }
inline wire::BufferDesc desc_of(store::BufferId id, std::uint64_t size) {
  return {id.node, id.slot, id.generation, size};
}

}  // namespace troupe::node

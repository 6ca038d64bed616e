// BufferId: the name of one buffer of one node's store. A buffer is the unit of allocation, pinning, transfer and
// spilling.
//
//   node        whose arena holds it
//   slot        its place in that node's shared index
//   generation  counts the uses of the slot, from 1: an id of an earlier use never names a later buffer
//
// All zero is nil. Trivially copyable: ids travel in messages as they are.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe::store {

struct BufferId {
  std::uint32_t node = 0;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  auto operator<=>(const BufferId&) const = default;
  bool is_nil() const { return generation == 0; }
};

std::string to_string(BufferId id);

struct BufferIdHash {
  std::size_t operator()(BufferId id) const {
    std::uint64_t x = (std::uint64_t(id.node) << 32 | id.slot) * 0x9E3779B97F4A7C15u + id.generation;
    x ^= x >> 32;
    x *= 0xD6E8FEB86659FD93u;
    return x ^ (x >> 32);
  }
};

/// Bytes [offset, offset + size) of the arena.
struct Range {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t end() const { return offset + size; }
  bool operator==(const Range&) const = default;
};

}  // namespace troupe::store

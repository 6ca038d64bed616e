// Identities. Every message and every reference carries the address of the process that it concerns.
//
//   node     number given by the head, from 1, never reused while the cluster lives; 0 is the head's own place
//   serial   number given by the node's daemon to each of its processes, from 1, never reused; 0 is the daemon itself
//   {0, 0}   the head
//
// All ids are trivially copyable, ordered and hashable; nil is all zero. to_string gives the form that users see.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe {

struct ProcessId {
  std::uint32_t node = 0;
  std::uint32_t serial = 0;
  auto operator<=>(const ProcessId&) const = default;
  std::uint64_t key() const { return std::uint64_t(node) << 32 | serial; }
  bool is_daemon() const { return node != 0 && serial == 0; }
};
inline constexpr ProcessId kHead{0, 0};
inline constexpr ProcessId daemon_of(std::uint32_t node) { return {node, 0}; }

namespace detail {
/// An id made by a process: unique in the cluster because the process is, and seq is a number of its own, never 0: an
/// actor's is counted from 1, that of an object or a task is a handle of a Slab (core/runtime/slab.h).
template <class Tag>
struct MadeId {
  ProcessId maker;
  std::uint64_t seq = 0;
  auto operator<=>(const MadeId&) const = default;
  bool is_nil() const { return seq == 0; }
};
std::string hex(std::uint64_t high, std::uint64_t low);
}  // namespace detail

using ObjectId = detail::MadeId<struct ObjectTag>;  ///< maker is the owner
using TaskId = detail::MadeId<struct TaskTag>;      ///< maker is the submitter
using ActorId = detail::MadeId<struct ActorTag>;    ///< maker is the creator
using JobId = std::uint32_t;                        ///< given by the head, from 1

template <class Tag>
std::string to_string(const detail::MadeId<Tag>& id) {
  return detail::hex(id.maker.key(), id.seq);
}
std::string to_string(ProcessId id);

struct IdHash {
  std::size_t operator()(ProcessId id) const { return mix(id.key()); }
  template <class Tag>
  std::size_t operator()(const detail::MadeId<Tag>& id) const {
    return mix(id.maker.key() * 0x9E3779B97F4A7C15u + id.seq);
  }
  static std::size_t mix(std::uint64_t x) {
    x ^= x >> 32; x *= 0xD6E8FEB86659FD93u; x ^= x >> 32;
    return x;
  }
};

}  // namespace troupe

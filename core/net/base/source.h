// Source: where a connection comes from, as far as it is hard to choose, and who makes way when too many wait that have
// proven nothing yet. So a stranger with many connections takes the places of its own, not those of others.
//
// Thread rule: source_of asks the kernel; who_makes_way is pure.
//
// Invariants
//   SRC-1  Who makes way is the oldest of the source of which most wait; of sources with as many, the oldest of all. So
//          one that waits alone stays for as long as another source has two. (Processes of one machine that dial it
//          are one source, and so are those behind one translated address.)
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::net {

/// An IPv4 address, or the first 64 bits of an IPv6 address, of which a host may have all; zeros: anything else.
using Source = std::array<std::uint8_t, 8>;

Source source_of(int fd);

/// `waiting`: not empty, the oldest first. The place of the one that makes way. SRC-1.
std::size_t who_makes_way(std::span<const Source> waiting);

}  // namespace troupe::net

// The messages of collective groups: between a process and its daemon, about ranks that come to the data port, and
// between the processes of a group. The other control messages, and their rules: wire/messages.h.
//
// Invariants
//   GM-1  A group is known by its record's key, one epoch of it by a random number; a message about an older epoch than
//         the one that its receiver knows does nothing, and one about a newer epoch waits for its record.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::wire {

/// A rank that will introduce itself at the daemon's data port (core/net/data/introduction.h), and the key that proves
/// it, once.
struct ExpectedRank { std::int32_t from = 0; std::uint16_t channel = 0; std::array<std::uint8_t, 32> key{}; };
/// `group` is the number of one epoch of one group (or of a split of it), `name` is for messages.
struct ExpectRanks {
  std::uint64_t group = 0, epoch = 0;
  std::string name;
  std::int32_t rank = 0;
  std::vector<ExpectedRank> from;
};
struct RankLeft { std::uint64_t group = 0; std::int32_t rank = 0; };
/// On the unix socket, beside the connected descriptor.
struct RankSocket { std::uint64_t group = 0, epoch = 0; std::int32_t from = 0, to = 0; std::uint16_t channel = 0; };
/// Introductions that are expected, and connections that came before anybody expected them.
struct RankDoor { std::uint64_t expected = 0, early = 0; };
/// kMemory: make the memory of a node's ranks, ranks of them. kFormed: `record` is the group's from now on. kEnded:
/// that epoch is of the past. kFailed: it has failed. kPresent: is this process there? It has only to answer; the
/// daemon of a dead one tells of the death, and so does, from then on, that of one that dies later.
enum class GroupWordKind : std::uint8_t { kMemory = 1, kFormed = 2, kEnded = 3, kFailed = 4, kPresent = 5 };
struct GroupWord {
  GroupWordKind kind = GroupWordKind::kFailed;
  std::string key;                              // where the group's record stands in the key-value table
  std::uint64_t group = 0, epoch = 0;
  std::string record = {};
  std::uint64_t memory_key = 0;
  std::int32_t ranks = 0;
  std::uint8_t reason = 0;
  std::string text = {};
  std::vector<std::int32_t> missing = {};
};
/// kMemory: who holds its descriptor, and as which number.
struct GroupAnswer { std::int32_t pid = 0, fd = -1; };

}  // namespace troupe::wire

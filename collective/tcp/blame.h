// Whom a rank names when its time is up. Every rank that waits for long tells all in which step it does, and for whom:
// at the end of that chain stands who tells nothing.
//
// Invariants
//   BL-1  A rank is not named as long as it is known to wait for one that has not passed the step in which it waits:
//         neither here nor in a step before, where the rank that stands still may have served one and not the other.
//   BL-2  Somebody is named wherever this rank waits for somebody.
// Pure. A word that is out of date (the data came, and the rank stopped before it waited again) can close the chain to
// a ring: then the one that most of the others wait for is named.
#pragma once
#include <cstdint>
#include <vector>

namespace troupe::collective {

/// What is known of a rank.
struct Standing {
  std::uint64_t sequence = 0;     ///< the newest step to which it has come
  std::uint64_t waits_in = 0;     ///< the newest step in which it told that it waits; 0: it never has
  std::vector<int> awaited = {};  ///< for these; empty: not within an operation
};

/// The rank that asks: where it waits, and for whose data.
struct Asker {
  int rank = 0;
  std::uint64_t sequence = 0;
  std::vector<int> awaited;
};

/// In ascending order. `ranks`: of all, by rank; that of the asker itself is not looked at.
std::vector<int> to_blame(const Asker& asker, const std::vector<Standing>& ranks);

}  // namespace troupe::collective

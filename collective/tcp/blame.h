// Whom a rank names when its time is up. Every rank that waits for long in an operation of the group tells all in which
// step it does, and for whom; and that it is through with a step in which others wait. At the end of that chain stands
// who is known neither to wait nor to be through.
//
// Invariants
//   BL-1  A rank is not named as long as it is known to wait for one that is not known to have passed the step in which
//         it waits: neither here nor in a step before, where the rank that stands still may have served one and not the
//         other. Nor is one that has passed the step in which it is waited for.
//   BL-2  Somebody is named wherever this rank waits for somebody that has not passed its step.
// Pure. A word can be out of date: the data came, and the rank stopped before it said anything else. Then the chain may
// close to a ring, and the rank is named that said its word first: those of the others came when it stood still.
#pragma once
#include <cstdint>
#include <vector>

namespace troupe::collective {

/// What is known of a rank.
struct Standing {
  std::uint64_t sequence = 0;     ///< the newest step to which it has come
  std::uint64_t through = 0;      ///< the newest step with which it told to be through
  std::uint64_t waits_in = 0;     ///< the newest step in which it told that it waits; 0: it never has
  std::vector<int> awaited = {};  ///< for these; empty: for nobody any more, or not within an operation
  std::uint64_t heard = 0;        ///< its last word's place among all that were heard

  bool has_passed(std::uint64_t step) const { return sequence > step || through >= step; }
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

#include "apps/rl/loops/fragment_ledger.h"

#include <algorithm>

namespace rl {

bool FragmentLedger::take(const FragmentId& id) {
  Taken& of = taken_[{id.runner, id.incarnation}];
  if (id.sequence < of.begin || !of.beyond.insert(id.sequence).second) return false;
  constexpr auto kKept = static_cast<std::int64_t>(kWindow);
  of.begin = std::max(of.begin, *of.beyond.rbegin() - kKept + 1);
  // Fragments that were lost with their node leave gaps, so what is kept is bounded by the window, too.
  of.beyond.erase(of.beyond.begin(), of.beyond.lower_bound(of.begin));
  while (of.beyond.erase(of.begin) != 0) ++of.begin;
  return true;
}

}  // namespace rl

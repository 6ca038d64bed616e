#include "collective/base/failure.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::collective {

Failure failure_of(const Error& error) {
  const auto* told = dynamic_cast<const CollectiveError*>(&error);
  if (!told) return {Reason::kBackend, error.message(), {}};
  return {told->reason(), error.message(), told->missing_ranks()};
}

// The ranks come first and the list of members last: a text that is too long for the others loses its end.
Failure told_above(const Failure& of_part, const std::vector<int>& members) {
  if (members.empty()) return {of_part.reason, of_part.text, {}};
  Failure told{of_part.reason, "", {}};
  for (int rank : of_part.missing_ranks)
    if (rank >= 0 && std::size_t(rank) < members.size()) told.missing_ranks.push_back(members[std::size_t(rank)]);
  const std::string whom =
      told.missing_ranks.empty() ? std::string()
                                 : fmt::format(" for rank{} {}", told.missing_ranks.size() == 1 ? "" : "s",
                                               fmt::join(told.missing_ranks, ", "));
  told.text = fmt::format("a split failed{}; in the split's own ranks: {} (its ranks are {} here)", whom, of_part.text,
                          fmt::join(members, ", "));
  return told;
}

}  // namespace troupe::collective

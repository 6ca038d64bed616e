#include "apps/rl/state/state_dict.h"

#include <fmt/format.h>

#include <troupe/error.h>

namespace rl {

void StateDict::put_all(const std::string& prefix, const StateDict& other) {
  for (const auto& [name, values] : other.entries_) entries_.insert_or_assign(prefix + "/" + name, values);
}

StateDict StateDict::get_all(const std::string& prefix) const {
  const std::string begin = prefix + "/";
  StateDict out;
  for (auto at = entries_.lower_bound(begin); at != entries_.end() && at->first.starts_with(begin); ++at)
    out.entries_.emplace(at->first.substr(begin.size()), at->second);
  return out;
}

void StateDict::raise_missing(const std::string& name, bool other_type) {
  troupe::SerializationError(other_type ? fmt::format("the state's '{}' is of another type", name)
                                        : fmt::format("the state has no '{}'", name))
      .raise();
}

void StateDict::raise_size(const std::string& name, std::size_t there, std::size_t wanted) {
  troupe::SerializationError(fmt::format("the state's '{}' has {} numbers where {} are wanted", name, there, wanted))
      .raise();
}

}  // namespace rl

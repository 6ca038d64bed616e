// Compare and swap in the cluster's key-value table (kv:: of state.h), for parts of the library that several processes
// may want to change at once.
#pragma once
#include <optional>
#include <string>

namespace troupe::detail {

/// Puts `value` where the value of `key` is `expected` (nullopt: the key is not there). Returns the value that is there
/// afterwards: where no two callers put the same, it tells who has won. Throws GetTimeoutError when the head does not
/// answer. Any thread of a driver or worker.
std::string kv_swap(const std::string& key, const std::optional<std::string>& expected, const std::string& value);

}  // namespace troupe::detail

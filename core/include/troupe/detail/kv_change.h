// Waiting for a key of the cluster's key-value table (kv:: of state.h) without looking again and again: the head answers when
// the value is another one. For parts of the library that meet by a key.
#pragma once
#include <optional>
#include <string>

#include <troupe/duration.h>

namespace troupe::detail {

/// Suspends the caller until the value of `key` differs from `known` (nullopt: the key is not there), at most for `timeout`
/// (0: looks once; kForever: no limit), and returns the value of that moment; at the deadline it may still be `known`. A value
/// that was there only for a moment may be returned, too. Throws CancelledError or DeadlineExceededError when the caller is
/// interrupted, GetTimeoutError when the head does not answer, PendingCallsLimitError when it holds too many waits.
/// Any thread of a driver or worker.
std::optional<std::string> await_kv_change(const std::string& key, const std::optional<std::string>& known, Duration timeout);

}  // namespace troupe::detail

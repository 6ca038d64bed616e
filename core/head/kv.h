// The cluster's key-value table: small strings, sorted by key, and those who wait for a key to change.
//
// Invariants
//   KV-1  A wait is answered once: at once when the value differs from the known one, else by the change that makes it differ
//         (with the value of that moment), else at its deadline with the value as it is.
//   KV-2  Waits are bounded (kKvWaitsMax): one more is refused at once (PendingCallsLimitError). A wait ends with its process.
//   KV-3  A change that is undone before anybody looks is still a change: whoever waited is told the value in between.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/head/events.h"

namespace troupe::head {

/// Every process of a large cluster may wait for a few keys at once.
inline constexpr std::size_t kKvWaitsMax = 65'536;
/// No wait is longer at the head; whoever wants more asks again.
inline constexpr Duration kKvWaitMax = std::chrono::hours(1);

class Kv {
 public:
  wire::Empty put(Turn& turn, wire::KvEntry entry);
  wire::KvValue get(const std::string& key) const;
  wire::KvDeleted del(Turn& turn, const std::string& key);
  /// Keys that begin with the prefix, sorted.
  wire::KvKeyList keys(const std::string& prefix) const;
  /// Answers now or later (KV-1).
  void await(Turn& turn, Caller caller, wire::KvAwait wanted);

  void on_process_died(ProcessId process);
  void on_node_died(std::uint32_t node);
  void on_time(Turn& turn);
  std::optional<Time> next_deadline() const;
  std::size_t waits() const { return waits_.size(); }

 private:
  struct Wait {
    Caller caller;
    std::string key;
    std::optional<std::string> known;
    Time deadline;
  };
  using Waits = std::map<std::uint64_t, Wait>;  // by number: in the order in which they came

  void changed(Turn& turn, const std::string& key);
  Waits::iterator forget(Waits::iterator at);
  template <class Pred> void forget_if(Pred&& gone);

  std::map<std::string, std::string> entries_;
  Waits waits_;
  std::map<std::pair<std::string, std::uint64_t>, Waits::iterator> by_key_;
  std::map<std::pair<Time, std::uint64_t>, Waits::iterator> by_deadline_;
  std::uint64_t last_ = 0;
};

}  // namespace troupe::head

// The cluster's key-value table: small strings, sorted by key.
//
// Invariants
//   KV-1  A swap happens only where the value is the expected one. Of two with the same expectation and different
//         values, one does.
#pragma once
#include <map>
#include <string>

#include "core/head/state/events.h"

namespace troupe::head {

class Kv {
 public:
  wire::Empty put(wire::KvEntry entry);
  wire::KvValue get(const std::string& key) const;
  wire::KvDeleted del(const std::string& key);
  /// Keys that begin with the prefix, sorted.
  wire::KvKeyList keys(const std::string& prefix) const;
  /// The value that is there afterwards: the wanted one, or who was faster (KV-1).
  wire::KvValue swap(wire::KvSwap wanted);

 private:
  std::map<std::string, std::string> entries_;
};

}  // namespace troupe::head

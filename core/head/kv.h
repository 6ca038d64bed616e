// The cluster's key-value table: small strings, sorted by key. Answers every request at once.
#pragma once
#include <map>
#include <string>

#include "core/head/events.h"

namespace troupe::head {

class Kv {
 public:
  wire::Empty put(wire::KvEntry entry);
  wire::KvValue get(const std::string& key) const;
  wire::KvDeleted del(const std::string& key);
  /// Keys that begin with the prefix, sorted.
  wire::KvKeyList keys(const std::string& prefix) const;

 private:
  std::map<std::string, std::string> entries_;
};

}  // namespace troupe::head

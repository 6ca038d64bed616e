#include "core/head/state/kv.h"

#include <optional>
#include <utility>

namespace troupe::head {

wire::Empty Kv::put(wire::KvEntry entry) {
  entries_.insert_or_assign(std::move(entry.key), std::move(entry.value));
  return {};
}

wire::KvValue Kv::get(const std::string& key) const {
  auto at = entries_.find(key);
  return {at == entries_.end() ? std::nullopt : std::optional<std::string>(at->second)};
}

wire::KvDeleted Kv::del(const std::string& key) { return {entries_.erase(key) != 0}; }

wire::KvKeyList Kv::keys(const std::string& prefix) const {
  wire::KvKeyList list;
  for (auto at = entries_.lower_bound(prefix); at != entries_.end() && at->first.starts_with(prefix); ++at)
    list.keys.push_back(at->first);
  return list;
}

wire::KvValue Kv::swap(wire::KvSwap wanted) {
  wire::KvValue now = get(wanted.key);
  if (now.value != wanted.expected) return now;
  entries_.insert_or_assign(std::move(wanted.key), wanted.value);
  return {std::move(wanted.value)};
}

}  // namespace troupe::head

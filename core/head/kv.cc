#include "core/head/kv.h"

#include <algorithm>

namespace troupe::head {

wire::Empty Kv::put(Turn& turn, wire::KvEntry entry) {
  const auto at = entries_.insert_or_assign(std::move(entry.key), std::move(entry.value)).first;
  changed(turn, at->first);
  return {};
}

wire::KvValue Kv::get(const std::string& key) const {
  auto at = entries_.find(key);
  return {at == entries_.end() ? std::nullopt : std::optional<std::string>(at->second)};
}

wire::KvDeleted Kv::del(Turn& turn, const std::string& key) {
  if (entries_.erase(key) == 0) return {false};
  changed(turn, key);
  return {true};
}

wire::KvKeyList Kv::keys(const std::string& prefix) const {
  wire::KvKeyList list;
  for (auto at = entries_.lower_bound(prefix); at != entries_.end() && at->first.starts_with(prefix); ++at) list.keys.push_back(at->first);
  return list;
}

// ----------------------------------------------------------------------------------------------------------------- waits

void Kv::await(Turn& turn, Caller caller, wire::KvAwait wanted) {
  wire::KvValue now = get(wanted.key);
  if (now.value != wanted.known || wanted.timeout_ns <= 0) return turn.effects.respond(caller.process, caller.token, std::move(now));
  if (waits_.size() >= kKvWaitsMax) {
    const std::string text = "more than " + std::to_string(kKvWaitsMax) + " waits for keys of the key-value table";
    return turn.effects.respond(caller.process, caller.token, error_record(ErrorCode::kPendingCallsLimit, text));
  }
  const Time deadline = turn.now + std::min(Duration(wanted.timeout_ns), kKvWaitMax);
  const std::uint64_t number = ++last_;
  const auto at = waits_.emplace(number, Wait{caller, std::move(wanted.key), std::move(wanted.known), deadline}).first;
  by_key_.emplace(std::pair(at->second.key, number), at);
  by_deadline_.emplace(std::pair(deadline, number), at);
}

void Kv::changed(Turn& turn, const std::string& key) {
  auto at = by_key_.lower_bound({key, 0});
  if (at == by_key_.end() || at->first.first != key) return;
  const wire::KvValue now = get(key);
  while (at != by_key_.end() && at->first.first == key) {
    const auto wait = (at++)->second;
    if (wait->second.known == now.value) continue;
    turn.effects.respond(wait->second.caller.process, wait->second.caller.token, now);
    forget(wait);
  }
}

void Kv::on_time(Turn& turn) {
  while (!by_deadline_.empty() && by_deadline_.begin()->first.first <= turn.now) {
    const auto wait = by_deadline_.begin()->second;
    turn.effects.respond(wait->second.caller.process, wait->second.caller.token, get(wait->second.key));
    forget(wait);
  }
}

void Kv::on_process_died(ProcessId process) {
  forget_if([&](const Wait& wait) { return wait.caller.process == process; });
}

void Kv::on_node_died(std::uint32_t node) {
  forget_if([&](const Wait& wait) { return wait.caller.process.node == node; });
}

std::optional<Time> Kv::next_deadline() const {
  return by_deadline_.empty() ? std::nullopt : std::optional<Time>(by_deadline_.begin()->first.first);
}

Kv::Waits::iterator Kv::forget(Waits::iterator at) {
  by_key_.erase({at->second.key, at->first});
  by_deadline_.erase({at->second.deadline, at->first});
  return waits_.erase(at);
}

template <class Pred> void Kv::forget_if(Pred&& gone) {
  for (auto at = waits_.begin(); at != waits_.end();) at = gone(at->second) ? forget(at) : std::next(at);
}

}  // namespace troupe::head

// KeyTable: what is remembered by idempotency key: as long as it is under way, then for an hour, 10,000 keys at most.
//
//   insert --> under way --keep--> kept --an hour, or 10,000 later ones: expire--> gone
//                  `--erase--> gone <--erase--'
//
// Invariants
//   KTB-1  What is kept is forgotten oldest first: an hour after keep(), or when 10,000 were kept after it. What is
//          under way, or was erased, neither delays nor hastens that.
// Thread rule: none of its own; one lock guards it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "core/exec/waiter.h"

namespace troupe::worker {

template <class T>
class KeyTable {
 public:
  static constexpr std::size_t kKeysMax = 10'000;
  static constexpr auto kKeyLife = std::chrono::hours(1);

  T* find(const std::string& key) {
    auto found = things_.find(key);
    return found == things_.end() ? nullptr : &found->second.thing;
  }
  /// It is under way. Replaces what was there.
  T& insert(const std::string& key, T thing) {
    erase(key);
    return things_.emplace(key, Entry{std::move(thing)}).first->second.thing;
  }
  /// It is done: its hour begins.
  void keep(const std::string& key, exec::Deadline now) {
    auto found = things_.find(key);
    if (found == things_.end() || found->second.number != 0) return;
    found->second.until = now + kKeyLife;
    found->second.number = ++last_;
    kept_.emplace(last_, key);
  }
  void erase(const std::string& key) {
    auto found = things_.find(key);
    if (found == things_.end()) return;
    kept_.erase(found->second.number);
    things_.erase(found);
  }
  void clear() {
    things_.clear();
    kept_.clear();
  }
  /// Forgets what was kept for too long, or is too much. When the oldest is due; kNever: none is kept. (KTB-1)
  exec::Deadline expire(exec::Deadline now) {
    while (!kept_.empty()) {
      const auto oldest = things_.find(kept_.begin()->second);
      if (kept_.size() <= kKeysMax && oldest->second.until > now) return oldest->second.until;
      things_.erase(oldest);
      kept_.erase(kept_.begin());
    }
    return exec::kNever;
  }
  /// Those that are kept, oldest first.
  template <class F> void for_each_kept(F&& f) {
    for (const auto& [number, key] : kept_) f(key, things_.find(key)->second.thing);
  }
  /// All, in no order.
  template <class F> void for_each(F&& f) {
    for (auto& [key, entry] : things_) f(key, entry.thing);
  }
  bool empty() const { return things_.empty(); }

 private:
  struct Entry { T thing; exec::Deadline until{}; std::uint64_t number = 0; };  // 0: under way
  std::unordered_map<std::string, Entry> things_;
  std::map<std::uint64_t, std::string> kept_;  // in order of keep()
  std::uint64_t last_ = 0;
};

}  // namespace troupe::worker

// KeyTable: what is remembered by idempotency key, for an hour, and 10,000 keys at most.
//
// Thread rule: none of its own; one lock guards it.
#pragma once
#include <cstddef>
#include <deque>
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
  /// Replaces what was there.
  T& insert(const std::string& key, T thing, exec::Deadline now) {
    Entry& entry = things_[key];
    entry = {std::move(thing), now + kKeyLife, ++last_};
    order_.emplace_back(entry.number, key);
    return entry.thing;
  }
  void erase(const std::string& key) { things_.erase(key); }
  void clear() {
    things_.clear();
    order_.clear();
  }
  /// Forgets what is too old or too much, oldest first, as far as `done` holds of it. When the oldest is due; kNever:
  /// none.
  template <class F> exec::Deadline expire(exec::Deadline now, F&& done) {
    while (!order_.empty()) {
      auto oldest = things_.find(order_.front().second);
      if (oldest != things_.end() && oldest->second.number == order_.front().first) {
        if (!done(oldest->second.thing)) return oldest->second.until;
        if (order_.size() <= kKeysMax && oldest->second.until > now) return oldest->second.until;
        things_.erase(oldest);
      }
      order_.pop_front();  // with what it named, or what it named has gone or was replaced before
    }
    return exec::kNever;
  }
  /// In order of insertion.
  template <class F> void for_each(F&& f) {
    for (const auto& [number, key] : order_)
      if (auto found = things_.find(key); found != things_.end() && found->second.number == number)
        f(key, found->second.thing);
  }
  bool empty() const { return things_.empty(); }

 private:
  struct Entry { T thing; exec::Deadline until{}; std::uint64_t number = 0; };
  std::unordered_map<std::string, Entry> things_;
  std::deque<std::pair<std::uint64_t, std::string>> order_;
  std::uint64_t last_ = 0;
};

}  // namespace troupe::worker

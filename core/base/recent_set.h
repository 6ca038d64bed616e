// RecentSet: the last so many distinct keys that were put in. For what must be known for a while of things that come
// and go without an end, as the deaths of processes.
//
// Invariants
//   RES-1  No more than `most` keys are kept: the one put in first goes first.
// Thread rule: one thread at a time.
#pragma once
#include <boost/unordered/unordered_flat_set.hpp>
#include <cstddef>
#include <deque>

namespace troupe {

template <class Key, class Hash> class RecentSet {
 public:
  explicit RecentSet(std::size_t most) : most_(most) {}

  /// False when it was in already.
  bool insert(const Key& key) {
    if (!keys_.insert(key).second) return false;
    order_.push_back(key);
    if (order_.size() > most_) {
      keys_.erase(order_.front());
      order_.pop_front();
    }
    return true;
  }
  bool contains(const Key& key) const { return keys_.contains(key); }
  std::size_t size() const { return keys_.size(); }

 private:
  const std::size_t most_;
  boost::unordered_flat_set<Key, Hash> keys_;
  std::deque<Key> order_;
};

}  // namespace troupe

// OomKills: has the kernel killed a process for lack of memory since the last look?
//
// Thread rule: one thread.
//
// Invariants
//   OOK-1  What the machine had counted before this was made is nobody's death here; each kill is seen by one look.
#pragma once
#include <cstdint>
#include <functional>
#include <utility>

namespace troupe::node {

class OomKills {
 public:
  /// `count`: how many there have been so far, of whatever it is that is watched.
  explicit OomKills(std::function<std::uint64_t()> count) : count_(std::move(count)), seen_(count_()) {}
  bool any_since() {
    const std::uint64_t before = std::exchange(seen_, count_());
    return seen_ > before;
  }

 private:
  const std::function<std::uint64_t()> count_;
  std::uint64_t seen_;
};

}  // namespace troupe::node

// Which fragments of an asynchronous run were taken. Pure; one thread at a time.
//
// FLG-1  A fragment is taken once: another one of its runner, incarnation and sequence is refused. So is one that comes
//        kWindow or more behind the newest of its incarnation, whose number is not kept any more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "apps/rl/samples/fragments.h"

namespace rl {

class FragmentLedger {
 public:
  static constexpr std::size_t kWindow = 1024;

  /// False: it is refused, and must not be learned from.
  bool take(const FragmentId& id);

 private:
  struct Taken {
    std::int64_t begin = 0;               // those below are taken, or will not come
    std::set<std::int64_t> beyond = {};   // taken ones from there on: fewer than kWindow
  };
  std::map<std::pair<std::uint32_t, std::uint32_t>, Taken> taken_;  // by runner and incarnation
};

}  // namespace rl

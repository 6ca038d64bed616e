// Actor calls, a thousand at a time: one caller, one actor.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Echo {
 public:
  std::string ok() { return "ok"; }
};

void measure(Harness& harness) {
  const auto echo = actor<Echo>.remote();
  get(echo.call<&Echo::ok>());
  harness.report_rate("actor/async", harness.rate([&] {
    std::vector<ObjectRef<std::string>> refs;
    refs.reserve(1000);
    for (int i = 0; i < 1000; ++i) refs.push_back(echo.call<&Echo::ok>());
    get(refs);
  }, 1000));
}

}  // namespace

const Program program{.rows = {"actor/async"}, .measure = &measure};

}  // namespace troupe::bench

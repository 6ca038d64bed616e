// What a cluster uses that has nothing to do: CPU time of driver, head, daemon, launcher and workers over some seconds,
// in percent of one core. There are an idle actor and idle workers.
#include <thread>

#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Echo {
 public:
  int ok() { return 1; }
};
int nothing() { return 1; }

void measure(Harness& harness) {
  const auto echo = actor<Echo>.remote();
  get(echo.call<&Echo::ok>());
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 100; ++i) refs.push_back(task<&nothing>.remote());
  get(refs);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // warm leases and spinning come to rest
  const double before = cpu_seconds_of_cluster();
  const auto start = Clock::now();
  std::this_thread::sleep_for(harness.choose(std::chrono::seconds(20), std::chrono::seconds(3)));
  const double percent = (cpu_seconds_of_cluster() - before) / seconds_since(start) * 100;
  harness.report({.row = "idle/cpu_percent", .value = percent});
}

}  // namespace

const Program program{.rows = {"idle/cpu_percent"}, .measure = &measure};

}  // namespace troupe::bench

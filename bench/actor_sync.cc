// Actor calls, one after the other, in three states of the machine: both sides asleep (calls 5 ms apart, interleaved with a
// futex round trip, the floor), back to back on two cores, and with both processes on one core.
//
// Asleep, a round trip costs 4 to 6 us when the kernel has put both sides on one core and 20 to 45 us over two, and the
// kernel moves each pair as it likes: call and floor compare only where both pairs stand alike. So they are measured in
// three placements: apart (this process on one core, actor and futex partner on another), together, and left to the kernel.
#include <thread>

#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Echo {
 public:
  std::string ok() { return "ok"; }
  int pin(int cpu) { pin_process(cpu); return cpu; }
};

struct Asleep { Samples calls, floors; };

/// 5 ms apart, one of each in turn. `here` and `there`: CPUs of this process and of both partners; -1: anywhere.
Asleep asleep(Harness& harness, const ActorHandle<Echo>& echo, int here, int there) {
  FutexFloor floor;
  floor.pin(there);
  get(echo.call<&Echo::pin>(there));
  pin_process(here);
  Asleep out;
  for (int i = harness.choose(400, 60); i > 0; --i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto start = Clock::now();
    get(echo.call<&Echo::ok>());
    out.calls.add(seconds_since(start) * 1e6);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    start = Clock::now();
    floor.round_trip();
    out.floors.add(seconds_since(start) * 1e6);
  }
  pin_process(-1);
  get(echo.call<&Echo::pin>(-1));
  return out;
}

void report_asleep(Harness& harness, const ActorHandle<Echo>& echo) {
  const std::vector<int> cpus = usable_cpus();
  Asleep apart = asleep(harness, echo, cpus.front(), cpus.back());
  harness.report({.row = "actor/sync_over_floor", .value = apart.calls.median() / apart.floors.median(), .floor = 1.0});
  harness.report({.row = "actor/sync_us", .value = apart.calls.median(), .spread = apart.calls.deviation(), .floor = apart.floors.median()});
  harness.report({.row = "actor/sync_p99_us", .value = apart.calls.quantile(0.99), .floor = apart.floors.quantile(0.99), .unit = "us", .better = "lower"});
  Asleep together = asleep(harness, echo, cpus.front(), cpus.front());
  harness.report({.row = "actor/sync_together_us", .value = together.calls.median(), .floor = together.floors.median(), .unit = "us", .better = "lower"});
  Asleep free = asleep(harness, echo, -1, -1);
  harness.report({.row = "actor/sync_unpinned_us", .value = free.calls.median(), .floor = free.floors.median(), .unit = "us", .better = "lower"});
}

/// Mean time of a call, back to back, in microseconds.
Row back_to_back(Harness& harness, const ActorHandle<Echo>& echo, const std::string& name) {
  const Rate rate = harness.rate([&] { get(echo.call<&Echo::ok>()); });
  return {.row = name, .value = 1e6 / rate.mean, .spread = 1e6 / rate.mean * rate.deviation / rate.mean};
}

void measure(Harness& harness) {
  const auto echo = actor<Echo>.remote();
  get(echo.call<&Echo::ok>());
  if (harness.wants("actor/sync_over_floor") || harness.wants("actor/sync_us") || harness.wants("actor/sync_p99_us")) report_asleep(harness, echo);
  if (harness.wants("actor/sync_spin_us")) {
    harness.report(back_to_back(harness, echo, "actor/sync_spin_us"));
    Samples latency;
    for (int i = harness.choose(100'000, 10'000); i > 0; --i) {
      const auto start = Clock::now();
      get(echo.call<&Echo::ok>());
      latency.add(seconds_since(start) * 1e6);
    }
    harness.report({.row = "actor/sync_spin_p50_us", .value = latency.median(), .unit = "us", .better = "lower"});
    harness.report({.row = "actor/sync_spin_p99_us", .value = latency.quantile(0.99), .unit = "us", .better = "lower"});
  }
  if (harness.wants("actor/sync_one_core_us")) {
    const int cpu = usable_cpus().front();
    get(echo.call<&Echo::pin>(cpu));
    pin_process(cpu);
    harness.report(back_to_back(harness, echo, "actor/sync_one_core_us"));
    pin_process(-1);
  }
}

}  // namespace

const Program program{.rows = {"actor/sync_over_floor", "actor/sync_us", "actor/sync_p99_us", "actor/sync_together_us", "actor/sync_unpinned_us", "actor/sync_spin_us", "actor/sync_spin_p50_us",
                               "actor/sync_spin_p99_us", "actor/sync_one_core_us"}, .measure = &measure};

}  // namespace troupe::bench

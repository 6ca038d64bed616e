// Actor calls, one after the other, in three states of the machine: both sides asleep (calls 5 ms apart, interleaved with a
// futex round trip, the floor), back to back on two cores, and with both processes on one core.
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

void asleep(Harness& harness, const ActorHandle<Echo>& echo) {
  FutexFloor floor;
  Samples calls, floors;
  for (int i = harness.choose(400, 60); i > 0; --i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    auto start = Clock::now();
    get(echo.call<&Echo::ok>());
    calls.add(seconds_since(start) * 1e6);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    start = Clock::now();
    floor.round_trip();
    floors.add(seconds_since(start) * 1e6);
  }
  harness.report({.row = "actor/sync_over_floor", .value = calls.median() / floors.median(), .floor = 1.0});
  harness.report({.row = "actor/sync_us", .value = calls.median(), .spread = calls.deviation(), .floor = floors.median()});
  harness.report({.row = "actor/sync_p99_us", .value = calls.quantile(0.99), .floor = floors.quantile(0.99), .unit = "us", .better = "lower"});
}

/// Mean time of a call, back to back, in microseconds.
Row back_to_back(Harness& harness, const ActorHandle<Echo>& echo, const std::string& name) {
  const Rate rate = harness.rate([&] { get(echo.call<&Echo::ok>()); });
  return {.row = name, .value = 1e6 / rate.mean, .spread = 1e6 / rate.mean * rate.deviation / rate.mean};
}

void measure(Harness& harness) {
  const auto echo = actor<Echo>.remote();
  get(echo.call<&Echo::ok>());
  if (harness.wants("actor/sync_over_floor") || harness.wants("actor/sync_us") || harness.wants("actor/sync_p99_us")) asleep(harness, echo);
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

const Program program{.rows = {"actor/sync_over_floor", "actor/sync_us", "actor/sync_p99_us", "actor/sync_spin_us", "actor/sync_spin_p50_us",
                               "actor/sync_spin_p99_us", "actor/sync_one_core_us"}, .measure = &measure};

}  // namespace troupe::bench

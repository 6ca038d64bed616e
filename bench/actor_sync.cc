// Actor calls, one after the other, by one actor that stays. (Against a futex ping-pong of the same threads:
// actor_pairs.cc.)
//
//   actor/sync_apart_over_other_pair   both sides asleep for 5 ms, this process on one core and the actor's on another,
//                                      over a futex round trip of another pair of threads in the same placement; the
//                                      caller of a call spins for some microseconds before it sleeps, that of the futex
//                                      does not
//   actor/sync_spin_us                 back to back, mean; p50 and p99 beside it
//   actor/sync_cpu_us                  CPU time of all processes of the cluster for one of these
//   actor/sync_one_core_us             back to back, both processes on one core
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
  harness.report({.row = "actor/sync_apart_over_other_pair",
                  .value = apart.calls.median() / apart.floors.median(),
                  .floor = 1.0});
}

/// Mean time of a call, back to back, in microseconds.
Row back_to_back(Harness& harness, const ActorHandle<Echo>& echo, const std::string& name) {
  const Rate rate = harness.rate([&] { get(echo.call<&Echo::ok>()); });
  return {.row = name, .value = 1e6 / rate.mean, .spread = 1e6 / rate.mean * rate.deviation / rate.mean};
}

void measure(Harness& harness) {
  const auto echo = actor<Echo>.remote();
  get(echo.call<&Echo::ok>());
  if (harness.wants("actor/sync_apart_over_other_pair")) report_asleep(harness, echo);
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
  if (harness.wants("actor/sync_cpu_us")) {
    const int calls = harness.choose(200'000, 20'000);
    const double before = cpu_seconds_of_cluster();
    for (int i = 0; i < calls; ++i) get(echo.call<&Echo::ok>());
    harness.report({.row = "actor/sync_cpu_us",
                    .value = (cpu_seconds_of_cluster() - before) * 1e6 / calls,
                    .unit = "us",
                    .better = "lower"});
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

const Program program{.rows = {"actor/sync_apart_over_other_pair", "actor/sync_spin_us", "actor/sync_spin_p50_us",
                               "actor/sync_spin_p99_us", "actor/sync_cpu_us", "actor/sync_one_core_us"},
                      .measure = &measure};

}  // namespace troupe::bench

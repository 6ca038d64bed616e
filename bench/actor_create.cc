// A process actor: created and called once, alone, and thirty at once. The actors' ends are awaited, and not counted.
//
//   actor/process_create_ms, actor/process_create_30_ms   in processes that a daemon keeps ready for a job
//   actor/process_create_cold_ms                          in a process that is forked for it: each actor has an
//   environment
//                                                         variable of its own, for which nothing can be kept ready
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Echo {
 public:
  int ok() { return 1; }
};

double create_ms(int count, const ActorOptions& options) {
  std::vector<ActorHandle<Echo>> actors;
  std::vector<ObjectRef<int>> answers;
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) {
    actors.push_back(actor<Echo>.options(options).remote());
    answers.push_back(actors.back().call<&Echo::ok>());
  }
  get(answers);
  const double ms = seconds_since(start) * 1e3;
  std::vector<ObjectRef<ActorDeath>> deaths;
  for (const auto& each : actors) deaths.push_back(monitor(each));
  for (const auto& each : actors) kill(each);
  get(deaths);
  return ms;
}

void create(Harness& harness, const std::string& row, int count, int times) {
  if (!harness.wants(row)) return;
  Samples samples;
  for (int i = 0; i < times; ++i) samples.add(create_ms(count, {}));
  harness.report({.row = row, .value = samples.median(), .spread = samples.deviation()});
}

void create_cold(Harness& harness) {
  Samples samples;
  for (int i = 0; i < harness.choose(30, 8); ++i)
    samples.add(create_ms(1, {.env = {.env_vars = {{"TROUPE_BENCH_COLD", std::to_string(i)}}}}));
  harness.report({.row = "actor/process_create_cold_ms", .value = samples.median(), .spread = samples.deviation()});
}

void measure(Harness& harness) {
  create_ms(1, {});
  create(harness, "actor/process_create_ms", 1, harness.choose(30, 8));
  create(harness, "actor/process_create_30_ms", 30, harness.choose(7, 3));
  if (harness.wants("actor/process_create_cold_ms")) create_cold(harness);
}

}  // namespace

const Program program{.rows = {"actor/process_create_ms", "actor/process_create_30_ms", "actor/process_create_cold_ms"},
                      .measure = &measure};

}  // namespace troupe::bench

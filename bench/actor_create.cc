// A process actor: created and called once, alone, and thirty at once.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Echo {
 public:
  int ok() { return 1; }
};

double create_ms(int count) {
  std::vector<ActorHandle<Echo>> actors;
  std::vector<ObjectRef<int>> answers;
  const auto start = Clock::now();
  for (int i = 0; i < count; ++i) {
    actors.push_back(actor<Echo>.remote());
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

void measure(Harness& harness) {
  create_ms(1);
  for (const auto& [row, count, times] : {std::tuple("actor/process_create_ms", 1, harness.choose(30, 8)), std::tuple("actor/process_create_30_ms", 30, harness.choose(7, 3))}) {
    if (!harness.wants(row)) continue;
    Samples samples;
    for (int i = 0; i < times; ++i) samples.add(create_ms(count));
    harness.report({.row = row, .value = samples.median(), .spread = samples.deviation()});
  }
}

}  // namespace

const Program program{.rows = {"actor/process_create_ms", "actor/process_create_30_ms"}, .measure = &measure};

}  // namespace troupe::bench

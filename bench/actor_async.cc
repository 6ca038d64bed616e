// Actor calls, a thousand at a time.
//
//   actor/async            one caller (the driver), one actor
//   actor/async_cpu_us     CPU time of all processes of the cluster for one of these calls
//   actor/async_with_ref   the same with an argument that is a ref: one number put for each thousand, handed to every
//                          call
//   actor/n_n_async        two callers, which are actors, and two actors: four processes. Each caller sends its
//                          thousand to both in turn; all calls of both over the time from the driver's request to both
//                          answers
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

constexpr int kBatch = 1000;

class Echo {
 public:
  std::string ok() { return "ok"; }
  int take(int value) { return value; }
};

class Caller {
 public:
  int drive(std::vector<ActorHandle<Echo>> targets, int batches) {
    for (int batch = 0; batch < batches; ++batch) {
      std::vector<ObjectRef<std::string>> refs;
      refs.reserve(kBatch);
      for (int i = 0; i < kBatch; ++i) refs.push_back(targets[std::size_t(i) % targets.size()].call<&Echo::ok>());
      get(refs);
    }
    return batches * kBatch;
  }
};

void one_by_one(Harness& harness) {
  const auto echo = actor<Echo>.remote();
  get(echo.call<&Echo::ok>());
  const auto batch = [&] {
    std::vector<ObjectRef<std::string>> refs;
    refs.reserve(kBatch);
    for (int i = 0; i < kBatch; ++i) refs.push_back(echo.call<&Echo::ok>());
    get(refs);
  };
  if (harness.wants("actor/async")) harness.report_rate("actor/async", harness.rate(batch, kBatch));
  if (harness.wants("actor/async_cpu_us")) {
    const int batches = harness.choose(500, 50);
    const double before = cpu_seconds_of_cluster();
    for (int i = 0; i < batches; ++i) batch();
    harness.report({.row = "actor/async_cpu_us",
                    .value = (cpu_seconds_of_cluster() - before) * 1e6 / (batches * kBatch),
                    .unit = "us",
                    .better = "lower"});
  }
  if (harness.wants("actor/async_with_ref")) {
    harness.report_rate("actor/async_with_ref", harness.rate([&] {
      const ObjectRef<int> number = put(7);
      std::vector<ObjectRef<int>> refs;
      refs.reserve(kBatch);
      for (int i = 0; i < kBatch; ++i) refs.push_back(echo.call<&Echo::take>(number));
      get(refs);
    }, kBatch));
  }
}

void many_to_many(Harness& harness) {
  const auto free = ActorOptions{.resources = {.cpus = 0}};
  std::vector<ActorHandle<Echo>> targets{actor<Echo>.options(free).remote(), actor<Echo>.options(free).remote()};
  const std::vector<ActorHandle<Caller>> callers{actor<Caller>.options(free).remote(),
                                                   actor<Caller>.options(free).remote()};
  constexpr int kBatches = 10;
  harness.report_rate("actor/n_n_async", harness.rate([&] {
    std::vector<ObjectRef<int>> done;
    for (const auto& caller : callers) done.push_back(caller.call<&Caller::drive>(targets, kBatches));
    get(done);
  }, 2.0 * kBatches * kBatch));
}

void measure(Harness& harness) {
  if (harness.wants_any({"actor/async", "actor/async_cpu_us", "actor/async_with_ref"})) one_by_one(harness);
  if (harness.wants("actor/n_n_async")) many_to_many(harness);
}

}  // namespace

const Program program{.rows = {"actor/async", "actor/async_cpu_us", "actor/async_with_ref", "actor/n_n_async"},
                      .measure = &measure};

}  // namespace troupe::bench

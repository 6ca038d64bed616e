// Light actors: 100,000 of them created and called once each, time and memory for one. Memory is that of all processes:
// hosts, driver, daemon and head; all memory of a host that starts in the middle counts.
#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Cell {
 public:
  int touch() { return ++calls_; }

 private:
  int calls_ = 0;
};

void measure(Harness& harness) {
  const std::size_t count = harness.choose<std::size_t>(100'000, 20'000);
  const auto light = actor<Cell>.options({.isolation = Isolation::kLight});
  std::vector<ActorHandle<Cell>> first;  // hosts are started by these
  for (int i = 0; i < 64; ++i) {
    first.push_back(light.remote());
    get(first.back().call<&Cell::touch>());
  }
  const double before = anonymous_bytes_of_cluster();
  std::vector<ActorHandle<Cell>> cells;
  cells.reserve(count);
  const auto start = Clock::now();
  {
    std::vector<ObjectRef<int>> answers;
    for (std::size_t done = 0; done < count; done += 1000) {
      answers.clear();
      for (std::size_t i = done; i < done + 1000; ++i) {
        cells.push_back(light.remote());
        answers.push_back(cells.back().call<&Cell::touch>());
      }
      for (const int calls : get(answers)) if (calls != 1) throw Error("not one call an actor");
    }
  }
  const double us = seconds_since(start) * 1e6 / double(count);
  harness.report({.row = "light/create_call_us", .value = us});
  harness.report({.row = "light/bytes", .value = (anonymous_bytes_of_cluster() - before) / double(count)});
}

}  // namespace

const Program program{.rows = {"light/create_call_us", "light/bytes"}, .measure = &measure};

}  // namespace troupe::bench

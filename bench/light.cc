// Light actors: 100,000 of them created and called once each, time and memory for one. Memory is that of the processes
// that host them and of the driver; all memory of a host that starts in the middle counts.
#include <unistd.h>

#include <set>

#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

class Cell {
 public:
  int where() { return ::getpid(); }
};

void measure(Harness& harness) {
  const std::size_t count = harness.choose<std::size_t>(100'000, 20'000);
  const auto light = actor<Cell>.options({.isolation = Isolation::kLight});
  std::vector<ActorHandle<Cell>> first;  // hosts are started by these
  std::set<int> hosts;
  for (int i = 0; i < 64; ++i) {
    first.push_back(light.remote());
    hosts.insert(get(first.back().call<&Cell::where>()));
  }
  const auto bytes = [&] {
    double sum = anonymous_bytes();
    for (const int pid : hosts) sum += anonymous_bytes(pid);
    return sum;
  };
  const double before = bytes();
  std::vector<ActorHandle<Cell>> cells;
  cells.reserve(count);
  const auto start = Clock::now();
  {
    std::vector<ObjectRef<int>> answers;
    for (std::size_t done = 0; done < count; done += 1000) {
      answers.clear();
      for (std::size_t i = done; i < done + 1000; ++i) {
        cells.push_back(light.remote());
        answers.push_back(cells.back().call<&Cell::where>());
      }
      for (const int pid : get(answers)) hosts.insert(pid);
    }
  }
  const double us = seconds_since(start) * 1e6 / double(count);
  harness.report({.row = "light/create_call_us", .value = us});
  harness.report({.row = "light/bytes", .value = (bytes() - before) / double(count)});
}

}  // namespace

const Program program{.rows = {"light/create_call_us", "light/bytes"}, .measure = &measure};

}  // namespace troupe::bench

// What an all-reduce of eight bytes costs more from an actor's method than from a plain program.
//
// Two actors, each pinned to a core. In turn, both do the same operation many times: on a plain thread of the process,
// by a group that the two processes joined, which is the library alone; in a method, by the group that the driver
// formed, looked up each time by its name; and in a method that has looked it up before. A barrier before each, the
// slowest rank, the median; the rows are the median differences of the rounds.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <troupe/collective.h>
#include <troupe/troupe.h>

#include "bench/harness.h"

namespace troupe::bench {
namespace {

constexpr const char* kGroup = "bench";

/// Microseconds of each all-reduce. `group` gives the group anew each time.
template <class GroupOf> std::vector<float> all_reduce_times(int count, const GroupOf& group) {
  std::vector<float> word{1, 2}, times(static_cast<std::size_t>(count));
  for (float& time : times) {
    group().barrier();
    const auto start = Clock::now();
    group().all_reduce(word);
    time = static_cast<float>(seconds_since(start) * 1e6);
    word = {1, 2};
  }
  return times;
}

class Rank {
 public:
  void pin(int rank) {
    const std::vector<int> cpus = usable_cpus();
    pin_process(cpus[static_cast<std::size_t>(rank) % cpus.size()]);
  }
  std::vector<float> in_method(int count) {
    return all_reduce_times(count, [] { return collective::group(kGroup); });
  }
  std::vector<float> in_method_held(int count) {
    return all_reduce_times(count, [group = collective::group(kGroup)] { return group; });
  }
  /// `address`: a path of this round alone.
  std::vector<float> in_library(int rank, const std::string& address, int count) {
    std::vector<float> times;
    std::exception_ptr failed;
    std::thread([&] {
      try {
        const collective::Group group = collective::join("bench-library", rank, 2, {.address = address});
        times = all_reduce_times(count, [&] { return group; });
      } catch (...) { failed = std::current_exception(); }
    }).join();
    if (failed) std::rethrow_exception(failed);
    return times;
  }
};

double median_of_slowest(const std::vector<float>& a, const std::vector<float>& b) {
  Samples slowest;
  for (std::size_t i = 0; i < a.size(); ++i) slowest.add(double(std::max(a[i], b[i])));
  return slowest.median();
}

void measure(Harness& harness) {
  std::vector<ActorHandle<Rank>> ranks{actor<Rank>.remote(), actor<Rank>.remote()};
  for (int r = 0; r < 2; ++r) get(ranks[std::size_t(r)].call<&Rank::pin>(r));
  collective::create_group(ranks, {.name = kGroup});
  const int count = harness.choose(20'000, 2'000);
  Samples library, method, held, over_library, held_over_library;
  for (int round = harness.choose(7, 3); round > 0; --round) {
    const std::string address = (std::filesystem::temp_directory_path() /
                                 ("troupe-bench-" + std::to_string(::getpid()) + "-" + std::to_string(round)))
                                    .string();
    const auto library0 = ranks[0].call<&Rank::in_library>(0, address, count),
               library1 = ranks[1].call<&Rank::in_library>(1, address, count);
    const double alone = median_of_slowest(get(library0), get(library1));
    const auto method0 = ranks[0].call<&Rank::in_method>(count), method1 = ranks[1].call<&Rank::in_method>(count);
    const double called = median_of_slowest(get(method0), get(method1));
    const auto held0 = ranks[0].call<&Rank::in_method_held>(count), held1 = ranks[1].call<&Rank::in_method_held>(count);
    const double called_held = median_of_slowest(get(held0), get(held1));
    library.add(alone), method.add(called), held.add(called_held);
    over_library.add(called - alone), held_over_library.add(called_held - alone);
  }
  std::printf(
      "# all_reduce of 8 B, two actors: %.3f us from a method that looks its group up, %.3f us with the group in hand, "
      "%.3f us by the library alone\n",
      method.median(), held.median(), library.median());
  harness.report({.row = "collective/actor_overhead",
                  .value = over_library.median(),
                  .spread = over_library.deviation(),
                  .unit = "us",
                  .better = "lower"});
  harness.report({.row = "collective/actor_overhead_group_held",
                  .value = held_over_library.median(),
                  .spread = held_over_library.deviation(),
                  .unit = "us",
                  .better = "lower"});
}

}  // namespace

const Program program{.rows = {"collective/actor_overhead", "collective/actor_overhead_group_held"},
                      .measure = &measure};

}  // namespace troupe::bench

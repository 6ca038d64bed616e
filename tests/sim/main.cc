// tests/sim/sim --seeds N [--seed S] [--world NAME] [--verbose] [--plant NAME] [--expect-failure] [--first]
//               [--full-rings]
//
// Runs N simulated clusters of each world (all, or the one that is named) from the seeds S, S+1, ... (300 from 1):
//   head   the head among models of everything else (world.h)
//   cores  real cores, lease queues and head on a model network (cores.h)
//   store  a real object store among clients that die (store_world.h)
//   links  real sessions, membership and transfers between nodes whose connections break (links_world.h)
// A failing seed is printed with the end of its trace; `--world W --seed S --seeds 1 --verbose` replays it. --plant
// puts a bug into the environment of head or cores, --expect-failure then turns the exit code round: the checks must
// have found it. --first ends at the first failure. --full-rings: rings of the cores are
// full now and then. How far it is is said every half minute. Bugs in product code itself: mutations/run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/log.h"
#include "tests/sim/cores.h"
#include "tests/sim/links_world.h"
#include "tests/sim/store_world.h"
#include "tests/sim/world.h"

namespace {

int usage() {
  std::fprintf(stderr, "usage: sim [--seeds N] [--seed S] [--world head|cores|store|links] [--verbose]"
               " [--expect-failure] [--first] [--full-rings] [--plant NAME], NAME one of:");
  for (const std::string& name : troupe::sim::plants()) std::fprintf(stderr, " %s", name.c_str());
  for (const std::string& name : troupe::sim::core_plants()) std::fprintf(stderr, " %s", name.c_str());
  std::fprintf(stderr, "\n");
  return 2;
}

constexpr std::chrono::seconds kTellEvery{30};

struct Totals { std::uint64_t seeds = 0, steps = 0, failures = 0; };

template <class W>
void run_seed(const char* name, const troupe::sim::WorldOptions& options, bool quiet, Totals& totals) {
  W world(options);
  const std::string broken = world.run();
  ++totals.seeds;
  totals.steps += world.steps();
  if (broken.empty()) return;
  std::printf("seed %llu of world %s failed: %s\n", static_cast<unsigned long long>(options.seed), name,
              broken.c_str());
  if (++totals.failures == 1 && !quiet && !options.verbose) {
    std::printf("the last lines of its trace:\n");
    for (const std::string& line : world.trace()) std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seeds = 300, first = 1;
  bool expect_failure = false, first_failure = false;
  std::string which;
  troupe::sim::WorldOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool more = i + 1 < argc;
    if (flag == "--seeds" && more) seeds = std::strtoull(argv[++i], nullptr, 10);
    else if (flag == "--seed" && more) first = std::strtoull(argv[++i], nullptr, 10);
    else if (flag == "--world" && more) which = argv[++i];
    else if (flag == "--full-rings") options.full_rings = true;
    else if (flag == "--plant" && more) options.plant = argv[++i];
    else if (flag == "--verbose") options.verbose = true;
    else if (flag == "--expect-failure") expect_failure = true;
    else if (flag == "--first") first_failure = true;
    else return usage();
  }
  if (!options.plant.empty() && which.empty())
    which = contains(troupe::sim::core_plants(), options.plant) ? "cores" : "head";
  const bool known = options.plant.empty() ||
                     contains(which == "cores" ? troupe::sim::core_plants() : troupe::sim::plants(), options.plant);
  if (!known || seeds == 0 || !contains({"", "head", "cores", "store", "links"}, which)) return usage();

  if (!options.verbose) troupe::set_log_level(troupe::LogLevel::kOff);  // errors are what is simulated
  Totals head, cores, store, links;
  const auto failures = [&] { return head.failures + cores.failures + store.failures + links.failures; };
  auto told = std::chrono::steady_clock::now();
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    if (const auto now = std::chrono::steady_clock::now(); now - told > kTellEvery) {
      std::fprintf(stderr, "sim: %llu of %llu seeds, %llu failures\n", static_cast<unsigned long long>(seed - first),
                   static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(failures()));
      told = now;
    }
    if (first_failure && failures() != 0) break;
    options.seed = seed;
    if (which.empty() || which == "head") run_seed<troupe::sim::World>("head", options, expect_failure, head);
    if (which.empty() || which == "cores") run_seed<troupe::sim::CoreWorld>("cores", options, expect_failure, cores);
    if (which.empty() || which == "store") run_seed<troupe::sim::StoreWorld>("store", options, expect_failure, store);
    if (which.empty() || which == "links") run_seed<troupe::sim::LinksWorld>("links", options, expect_failure, links);
  }
  for (const auto& [name, totals] : {std::pair("head", head), std::pair("cores", cores), std::pair("store", store),
                                     std::pair("links", links)})
    if (totals.seeds != 0)
      std::printf("world %s: %llu seeds, %llu steps, %llu failures\n", name,
                  static_cast<unsigned long long>(totals.seeds), static_cast<unsigned long long>(totals.steps),
                  static_cast<unsigned long long>(totals.failures));
  return (failures() != 0) != expect_failure ? 1 : 0;
}

// tests/sim/sim --seeds N [--seed S] [--verbose] [--plant NAME] [--expect-failure]
//
// Runs N simulated clusters from the seeds S, S+1, ... (default: 300 from 1). A failing seed is printed with the end of its
// trace; `--seed S --seeds 1 --verbose` replays it. --plant puts a bug into the environment, --expect-failure then turns the
// exit code round: the checks must have found it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/world.h"

namespace {

int usage() {
  std::fprintf(stderr, "usage: sim [--seeds N] [--seed S] [--verbose] [--expect-failure] [--plant NAME], NAME one of:");
  for (const std::string& name : troupe::sim::plants()) std::fprintf(stderr, " %s", name.c_str());
  std::fprintf(stderr, "\n");
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seeds = 300, first = 1;
  bool expect_failure = false;
  troupe::sim::WorldOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const bool more = i + 1 < argc;
    if (flag == "--seeds" && more) seeds = std::strtoull(argv[++i], nullptr, 10);
    else if (flag == "--seed" && more) first = std::strtoull(argv[++i], nullptr, 10);
    else if (flag == "--plant" && more) options.plant = argv[++i];
    else if (flag == "--verbose") options.verbose = true;
    else if (flag == "--expect-failure") expect_failure = true;
    else return usage();
  }
  bool known = options.plant.empty();
  for (const std::string& name : troupe::sim::plants()) known = known || name == options.plant;
  if (!known || seeds == 0) return usage();

  std::uint64_t failures = 0, steps = 0;
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    options.seed = seed;
    troupe::sim::World world(options);
    const std::string broken = world.run();
    steps += world.steps();
    if (broken.empty()) continue;
    if (++failures == 1 && !expect_failure) {
      std::printf("seed %llu failed: %s\nthe last lines of its trace:\n", static_cast<unsigned long long>(seed), broken.c_str());
      if (!options.verbose) for (const std::string& line : world.trace()) std::printf("%s\n", line.c_str());
    } else {
      std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed), broken.c_str());
    }
  }
  std::printf("%llu seeds, %llu steps of the head, %llu failures\n", static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(steps), static_cast<unsigned long long>(failures));
  return (failures != 0) != expect_failure ? 1 : 0;
}

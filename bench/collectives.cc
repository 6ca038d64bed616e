// All-reduce between processes (collective_ranks.h says how it is measured): the table of nccl-tests for each backend,
// and beside it what the machine itself could do in the same moment.
//
// GB are 1e9 bytes; algbw is size / time, busbw that times 2 (n-1) / n, which compares with the speed of the wire. A
// measurement during which others had more than a twentieth of the CPUs, or the host moved the ranks' cores, or put
// both on one or far apart, is not calm, and made again, a few times at most. A row of up to 1 MiB is the middle one of
// five calm measurements (each with new ranks and new memory: where its pages lie moves a small row by a few percent),
// a larger one a single calm measurement; where none was calm, the calmest. The line printed is that measurement's, and
// says how it was.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <troupe/error.h>

#include "bench/collective_ranks.h"
#include "bench/harness.h"

namespace troupe::bench {
namespace {

constexpr std::size_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr double kCalm = 0.05;  // of the CPUs for others

const std::vector<Job> kJobs = {
    {.row = "collective/all_reduce/8B/2", .bytes = 8},
    {.row = "collective/all_reduce/1KiB/2", .bytes = kKiB},
    {.row = "collective/all_reduce/64KiB/2", .bytes = 64 * kKiB},
    {.row = "collective/all_reduce/1MiB/2", .bytes = kMiB},
    {.row = "collective/all_reduce/16MiB/2", .bytes = 16 * kMiB},
    {.row = "collective/all_reduce/64MiB/2",
     .bytes = 64 * kMiB,
     .efficiency = "collective/all_reduce/64MiB/2_efficiency"},
    {.row = "collective/all_reduce/256MiB/2",
     .bytes = 256 * kMiB,
     .efficiency = "collective/all_reduce/256MiB/2_efficiency"},
    {.row = "collective/all_reduce/bf16_256MiB/2",
     .bytes = 256 * kMiB,
     .bf16 = true,
     .efficiency = "collective/all_reduce/bf16_256MiB/2_efficiency"},
    {.row = "collective/all_reduce/8B/4", .bytes = 8, .ranks = 4},
    {.row = "collective/all_reduce/64KiB/4", .bytes = 64 * kKiB, .ranks = 4},
    {.row = "collective/all_reduce/256MiB/4", .bytes = 256 * kMiB, .ranks = 4},
    {.row = "collective/tcp/1KiB/2", .bytes = kKiB, .wire = Wire::kTcp},
    {.row = "collective/tcp/64KiB/2", .bytes = 64 * kKiB, .wire = Wire::kTcp},
    {.row = "collective/tcp/1MiB/2", .bytes = kMiB, .wire = Wire::kTcp},
    {.row = "collective/tcp/64MiB/2", .bytes = 64 * kMiB, .wire = Wire::kTcp},
    {.row = "collective/hier/1KiB/4", .bytes = kKiB, .ranks = 4, .wire = Wire::kHier},
    {.row = "collective/hier/64MiB/4", .bytes = 64 * kMiB, .ranks = 4, .wire = Wire::kHier},
};

bool is_large(const Job& job) { return job.bytes >= 64 * kMiB; }

Effort effort_of(const Harness& harness, const Job& job) {
  const int small = job.wire != Wire::kShm ? harness.choose(2000, 300) : harness.choose(kIterationsMax, 2000);
  return {.copies = job.bytes >= kMiB ? harness.choose(9, 5) : 5,
          .iterations = is_large(job) ? harness.choose(9, 5) : job.bytes >= kMiB ? harness.choose(500, 50) : small};
}

/// What speaks against an outcome; below kCalm: nothing. A line that takes kFar and longer: the host has put the cores
/// far apart.
double unrest(const Outcome& o) {
  constexpr double kFar = 200;
  return o.others +
         (o.cores == Cores::kOne     ? 1
          : o.cores == Cores::kMoved ? 0.5
                                     : 0) +
         (o.round_trip_ns > kFar ? 0.25 : 0);
}

/// Calm measurements that a row takes the middle of.
int measurements_of(const Harness& harness, const Job& job) { return job.bytes <= kMiB ? harness.choose(5, 1) : 1; }

/// The middle one by time of those that were calm; the calmest one where none was.
Outcome middle_of_calm(std::vector<Outcome> outcomes) {
  std::ranges::sort(outcomes, {}, &unrest);
  const auto restless = std::ranges::find_if(outcomes, [](const Outcome& o) { return unrest(o) > kCalm; });
  if (restless == outcomes.begin()) return outcomes.front();
  outcomes.erase(restless, outcomes.end());
  const auto middle = outcomes.begin() + std::ptrdiff_t(outcomes.size() - 1) / 2;
  std::ranges::nth_element(outcomes, middle, {}, &Outcome::out_of_place);
  return *middle;
}

/// `patience`: seconds for all measurements together that are made in place of those that were not calm; what is used
/// is taken from it.
Outcome measure_calmly(const Harness& harness, const Job& job, double& patience) {
  std::vector<Outcome> outcomes;
  int wanted = measurements_of(harness, job), again = harness.choose(15, 0);
  while (wanted > 0) {
    const auto start = Clock::now();
    outcomes.push_back(run_ranks(job, effort_of(harness, job)));
    if (unrest(outcomes.back()) > kCalm && again > 0 && patience > 0) --again, patience -= seconds_since(start);
    else --wanted;
  }
  return middle_of_calm(std::move(outcomes));
}

class Table {
 public:
  static void head() {
    std::printf("# all_reduce\n#%70s%34s\n", "out-of-place", "in-place");
    std::printf("#%11s %12s %9s %7s %5s | %10s %7s %7s %6s | %10s %7s %7s %6s | %7s %5s %10s %10s %6s %8s %7s %7s\n",
                "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
                "#wrong", "backend", "ranks", "b2b", "T_min", "eff", "line rtt", "cores", "others");
    std::printf("#%11s %12s %9s %7s %5s | %10s %7s %7s %6s | %10s %7s %7s %6s | %7s %5s %10s %10s %6s %8s %7s %7s\n",
                "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "", "", "",
                "(us)", "(us)", "", "(ns)", "", "(%)");
    std::fflush(stdout);
  }
  void line(const Job& job, const Outcome& o) {
    const double size = double(job.bytes), factor = 2.0 * (job.ranks - 1) / job.ranks;
    std::printf("%12zu %12zu %9s %7s %5d | ", job.bytes, job.count(), job.bf16 ? "bfloat16" : "float", "sum", -1);
    for (const auto& [time, wrong] : {std::pair(o.out_of_place, o.wrong), std::pair(o.in_place, o.wrong_in_place)}) {
      const double rate = size / time / 1e9;
      std::printf("%10.2f %7.2f %7.2f %6llu | ", time * 1e6, rate, rate * factor,
                  static_cast<unsigned long long>(wrong));
      busbw_.add(rate * factor);
      wrong_ += wrong;
    }
    std::printf("%7s %5d %10.2f %10.2f %6.2f %8.0f %7s %7.0f\n", name_of(job.wire), job.ranks, o.back_to_back * 1e6,
                o.t_min * 1e6, o.t_min / o.out_of_place, o.round_trip_ns, name_of(o.cores), o.others * 100);
    std::fflush(stdout);
  }
  void foot() const {
    std::printf("# Out of bounds values : %llu %s\n# Avg bus bandwidth    : %.2f\n",
                static_cast<unsigned long long>(wrong_), wrong_ == 0 ? "OK" : "FAILED", busbw_.mean());
  }

 private:
  Samples busbw_;
  std::uint64_t wrong_ = 0;
};

void report(Harness& harness, const Job& job, const Outcome& o) {
  Row row{.row = job.row,
          .value = o.out_of_place * (is_large(job) ? 1e3 : 1e6),
          .unit = is_large(job) ? "ms" : "us",
          .better = "lower"};
  if (o.round_trip_ns > 0) row.round_trip_ns = o.round_trip_ns;
  if (is_large(job)) row.copy_gb_s = o.copy_rate(job) / 1e9;
  if (job.wire == Wire::kShm && is_large(job)) row.floor = o.t_min * 1e3;
  if (job.wire == Wire::kShm && job.bytes <= 64 && o.round_trip_ns > 0) row.floor = o.round_trip_ns / 1e3;
  if (job.wire == Wire::kTcp && is_large(job)) {
    row.value = double(job.bytes) / o.out_of_place / 1e9 * 2 * (job.ranks - 1) / job.ranks;
    row.unit = "GB/s", row.better = "higher";
  }
  harness.report(row);
  if (!job.efficiency.empty())
    harness.report({.row = job.efficiency, .value = o.t_min / o.out_of_place, .unit = "x", .better = "higher"});
}

bool wanted(const Harness& harness, const Job& job) {
  return harness.wants(job.row) || (!job.efficiency.empty() && harness.wants(job.efficiency));
}

void measure(Harness& harness) {
  Table table;
  Table::head();
  double patience = 300;
  for (const Job& job : kJobs) {
    if (!wanted(harness, job)) continue;
    const Outcome outcome = measure_calmly(harness, job, patience);
    table.line(job, outcome);
    if (outcome.wrong + outcome.wrong_in_place != 0) throw Error("wrong results in " + job.row);
    report(harness, job, outcome);
  }
  table.foot();
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const Job& job : kJobs) {
    names.push_back(job.row);
    if (!job.efficiency.empty()) names.push_back(job.efficiency);
  }
  return names;
}

}  // namespace

const Program program{.rows = row_names(), .measure = &measure, .runtime = false};

}  // namespace troupe::bench

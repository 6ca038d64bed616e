// What this machine can do, whoever programs it: the multiply-add peak of one core and of all of them at once, the copy
// of memory with streaming stores by all cores at once, the round trip of a cache line between two cores, and that of a
// message of 64 bytes between two processes over a ring in shared memory each way (a line with the message, a line with
// the position). Other measures are read beside these.
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "bench/harness.h"
#include "bench/kernels_peak.h"
#include "kernels/cpu/copy/copy.h"

namespace troupe::bench {
namespace {

void pin_thread(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(std::size_t(cpu), &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

/// One thread on each of the CPUs.
void on_each(const std::vector<int>& cpus, const std::function<void(std::size_t index)>& body) {
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < cpus.size(); ++i)
    threads.emplace_back([&, i] {
      pin_thread(cpus[i]);
      body(i);
    });
}

/// Operations a second of all these CPUs together, the best of five tries.
double peak_of(const std::vector<int>& cpus, double budget) {
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    std::vector<double> rates(cpus.size());
    std::barrier together(std::ptrdiff_t(cpus.size()));
    on_each(cpus, [&](std::size_t index) {
      together.arrive_and_wait();
      rates[index] = multiply_add_peak(budget);
    });
    double sum = 0;
    for (const double rate : rates) sum += rate;
    best = std::max(best, sum);
  }
  return best;
}

/// Bytes a second, read plus written, of all CPUs at once: each copies 128 MiB of its own; median of the slowest.
Samples copy_rates(const std::vector<int>& cpus, int times) {
  constexpr std::size_t kBytes = std::size_t(128) << 20;
  std::vector<double> seconds(cpus.size());
  std::barrier together(std::ptrdiff_t(cpus.size()));
  Samples rates;
  on_each(cpus, [&](std::size_t index) {
    auto* memory =
        static_cast<char*>(::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::madvise(memory, 2 * kBytes, MADV_HUGEPAGE);
    std::fill(memory, memory + 2 * kBytes, char(1));
    for (int i = 0; i < times; ++i) {
      together.arrive_and_wait();
      const auto start = Clock::now();
      kernels::copy(memory + kBytes, memory, kBytes, {.stream = true});
      seconds[index] = seconds_since(start);
      together.arrive_and_wait();
      const double slowest = *std::max_element(seconds.begin(), seconds.end());
      if (index == 0) rates.add(2.0 * double(kBytes) * double(cpus.size()) / slowest);
    }
    ::munmap(memory, 2 * kBytes);
  });
  return rates;
}

/// Nanoseconds between the first two CPUs, the median of many short matches.
Samples round_trips(const std::vector<int>& cpus, int times) {
  constexpr std::uint64_t kBalls = 10'000;
  alignas(128) std::atomic<std::uint64_t> ball{0};
  alignas(128) std::atomic<std::uint64_t> back{0};
  Samples samples;
  on_each({cpus[0], cpus[1]}, [&](std::size_t index) {
    std::uint64_t at = 0;
    for (int match = 0; match < times; ++match) {
      const auto start = Clock::now();
      for (const std::uint64_t end = at + kBalls; at < end;) {
        ++at;
        if (index == 0) {
          ball.store(at, std::memory_order_release);
          while (back.load(std::memory_order_acquire) != at) {}
        } else {
          while (ball.load(std::memory_order_acquire) != at) {}
          back.store(at, std::memory_order_release);
        }
      }
      if (index == 0) samples.add(seconds_since(start) * 1e9 / double(kBalls));
    }
  });
  return samples;
}

struct Ring {
  static constexpr std::size_t kSlots = 64;
  struct alignas(64) Message {
    std::uint64_t words[8];
  };
  alignas(128) std::atomic<std::uint64_t> written{0};
  alignas(128) Message slots[kSlots];

  void send(std::uint64_t number) {
    Message& slot = slots[number % kSlots];
    for (std::uint64_t& word : slot.words) word = number;
    written.store(number + 1, std::memory_order_release);
  }
  std::uint64_t receive(std::uint64_t number) {
    while (written.load(std::memory_order_acquire) <= number) {}
    std::uint64_t sum = 0;
    for (const std::uint64_t word : slots[number % kSlots].words) sum += word;
    return sum;
  }
};

/// Microseconds between two processes on the first two CPUs, the median of many short matches.
Samples ping_pongs(const std::vector<int>& cpus, int times) {
  constexpr std::uint64_t kBalls = 10'000;
  void* const memory = ::mmap(nullptr, 2 * sizeof(Ring), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for the ping-pong");
  Ring* const rings = new (memory) Ring[2];
  const std::uint64_t all = kBalls * std::uint64_t(times);
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin_thread(cpus[1]);
    for (std::uint64_t at = 0; at < all; ++at) {
      static_cast<void>(rings[0].receive(at));
      rings[1].send(at);
    }
    ::_exit(0);
  }
  Samples samples;
  on_each({cpus[0]}, [&](std::size_t) {
    std::uint64_t at = 0;
    for (int match = 0; match < times; ++match) {
      const auto start = Clock::now();
      for (const std::uint64_t end = at + kBalls; at < end; ++at) {
        rings[0].send(at);
        if (rings[1].receive(at) != 8 * at) throw std::logic_error("wrong bytes");
      }
      samples.add(seconds_since(start) * 1e6 / double(kBalls));
    }
  });
  ::waitpid(child, nullptr, 0);
  ::munmap(memory, 2 * sizeof(Ring));
  return samples;
}

void measure(Harness& harness) {
  const std::vector<int> cpus = usable_cpus();
  const double budget = harness.choose(0.2, 0.05);
  if (harness.wants("machine/peak_one_core")) {
    const double peak = peak_of({cpus[0]}, budget) * 1e-9;
    harness.report({.row = "machine/peak_one_core", .value = peak, .unit = "GFLOP/s", .better = "higher"});
  }
  if (harness.wants("machine/peak_all_cores")) {
    const double peak = peak_of(cpus, budget) * 1e-9;
    harness.report({.row = "machine/peak_all_cores", .value = peak, .unit = "GFLOP/s", .better = "higher"});
  }
  const auto report = [&](const std::string& row, Samples samples, double factor, const std::string& unit,
                          const std::string& better) {
    harness.report({.row = row,
                    .value = samples.median() * factor,
                    .spread = samples.deviation() * factor,
                    .unit = unit,
                    .better = better});
  };
  if (harness.wants("machine/copy"))
    report("machine/copy", copy_rates(cpus, harness.choose(15, 5)), 1e-9, "GB/s", "higher");
  if (cpus.size() < 2) return;
  if (harness.wants("machine/round_trip"))
    report("machine/round_trip", round_trips(cpus, harness.choose(50, 10)), 1, "ns", "lower");
  if (harness.wants("machine/ping_pong"))
    report("machine/ping_pong", ping_pongs(cpus, harness.choose(50, 10)), 1, "us", "lower");
}

}  // namespace

const Program program{.rows = {"machine/peak_one_core", "machine/peak_all_cores", "machine/copy", "machine/round_trip",
                               "machine/ping_pong"},
                      .measure = &measure,
                      .runtime = false};

}  // namespace troupe::bench

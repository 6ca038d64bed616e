// All-reduce and its relatives between forked processes, each pinned to a core: the table of nccl-tests (size, count, type, op,
// time, algbw, busbw, #wrong, out of place and in place), and beside it what the machine itself can do in the same moment.
//
// How a row is measured: before each operation all ranks meet in a barrier; its time is that of the slowest rank; the row is the
// median of the iterations. "b2b" is the mean of the same operations back to back. T_min is the time in which all ranks copy
// their own input to their own output at once with streaming stores: an all-reduce cannot take less, and efficiency = T_min / T.
// The cache-line round trip between the first two ranks is printed with every row: on a virtual machine it tells whether the
// row is worth anything. "others" is the share of the CPUs that went to other processes meanwhile.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "bench/harness.h"
#include "collective/member.h"
#include "collective/shm_communicator.h"
#include "collective/tcp_mesh.h"
#include "kernels/copy.h"

namespace troupe::bench {
namespace {

using namespace collective;

constexpr int kRanksMax = 8;
constexpr int kIterationsMax = 20'000;

/// Seconds of each iteration, by rank: written by the ranks, read by their parent.
struct Shared {
  std::atomic<std::uint64_t> ball alignas(128);
  std::atomic<std::uint64_t> back alignas(128);
  double line_round_trip_ns;
  double copy[kRanksMax][64], out_of_place[kRanksMax][kIterationsMax], in_place[kRanksMax][kIterationsMax];
  double back_to_back[kRanksMax];
  int copies, iterations;
  std::uint64_t wrong[kRanksMax];
};

struct Job {
  std::string row;
  std::size_t bytes = 0;
  int ranks = 2;
  bool bf16 = false;
  bool own_cores = false;  // every rank has one to itself
  bool tcp = false;        // over loopback
  std::string efficiency = {};  // row for T_min / T, of sizes that memory bandwidth limits
};

void pin_this(int cpu) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(cpu, &cores);
  ::sched_setaffinity(0, sizeof cores, &cores);
}

/// Touched memory that nobody else needs, aligned as a large vector is.
template <class T> struct Buffer {
  explicit Buffer(std::size_t n) : data(static_cast<T*>(::mmap(nullptr, n * sizeof(T) + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))), count(n) {
    ::madvise(data, n * sizeof(T), MADV_HUGEPAGE);
    std::memset(static_cast<void*>(data), 0, n * sizeof(T) + 4096);
  }
  ~Buffer() { ::munmap(data, count * sizeof(T) + 4096); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::span<T> span() { return {data, count}; }
  T* data;
  std::size_t count;
};

void line_round_trips(Shared& shared, int rank) {
  constexpr std::uint64_t kTimes = 20'000;
  if (rank > 1) return;
  const auto start = Clock::now();
  for (std::uint64_t i = 1; i <= kTimes; ++i) {
    if (rank == 0) {
      shared.ball.store(i, std::memory_order_release);
      while (shared.back.load(std::memory_order_acquire) != i) {}
    } else {
      while (shared.ball.load(std::memory_order_acquire) != i) {}
      shared.back.store(i, std::memory_order_release);
    }
  }
  if (rank == 0) shared.line_round_trip_ns = seconds_since(start) * 1e9 / double(kTimes);
}

template <class T> void run_rank(const Job& job, Shared& shared, Group g) {
  const int me = g.rank();
  Buffer<T> in(job.bytes / sizeof(T)), out(in.count);
  const auto fill = [&](Buffer<T>& buffer) { for (std::size_t i = 0; i < buffer.count; ++i) buffer.data[i] = T(float(1 + (std::size_t(me) * 7 + i * 3) % 5)); };
  fill(in);
  if (job.own_cores) line_round_trips(shared, me);
  for (int i = 0; i < shared.copies; ++i) {
    g.barrier();
    const auto start = Clock::now();
    kernels::copy(out.data, in.data, job.bytes, {.stream = job.bytes >= (2u << 20)});
    shared.copy[me][i] = seconds_since(start);
  }
  g.all_reduce(in.span(), out.span());
  for (std::size_t i = 0; i < out.count; ++i) {
    float want = 0;
    for (int r = 0; r < g.size(); ++r) want += float(1 + (std::size_t(r) * 7 + i * 3) % 5);
    shared.wrong[me] += float(out.data[i]) != want;
  }
  for (int i = 0; i < shared.iterations; ++i) {
    g.barrier();
    const auto start = Clock::now();
    g.all_reduce(in.span(), out.span());
    shared.out_of_place[me][i] = seconds_since(start);
  }
  for (int i = 0; i < shared.iterations; ++i) {
    g.barrier();
    const auto start = Clock::now();
    g.all_reduce(out.span());
    shared.in_place[me][i] = seconds_since(start);
  }
  g.barrier();
  const auto start = Clock::now();
  for (int i = 0; i < shared.iterations; ++i) g.all_reduce(in.span(), out.span());
  shared.back_to_back[me] = seconds_since(start) / shared.iterations;
  g.barrier();
}

/// Slowest rank of each iteration, then the median.
double median_of_slowest(const double* times, std::size_t stride, int ranks, int iterations) {
  Samples samples;
  for (int i = 0; i < iterations; ++i) {
    double slowest = 0;
    for (int r = 0; r < ranks; ++r) slowest = std::max(slowest, times[std::size_t(r) * stride + std::size_t(i)]);
    samples.add(slowest);
  }
  return samples.median();
}

/// Busy CPU seconds of the machine.
double busy_seconds() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0;
  in >> cpu >> user >> nice >> system;
  return (user + nice + system) / double(::sysconf(_SC_CLK_TCK));
}

void print_head() {
  std::printf("#%12s %12s %9s %5s | %10s %8s %8s %6s | %10s %8s %8s | %10s | %8s %6s %8s %7s\n", "size(B)", "count", "type", "ranks", "time(us)", "algbw", "busbw",
              "#wrong", "in place", "algbw", "busbw", "b2b(us)", "T_min", "eff", "rtt(ns)", "others%");
}

void run_job(Harness& harness, Job job) {
  auto* shared = static_cast<Shared*>(::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  shared->copies = job.bytes >= (1u << 20) ? harness.choose(15, 5) : 5;
  const int most = job.bytes >= (64u << 20) ? harness.choose(15, 5) : job.bytes >= (1u << 20) ? harness.choose(200, 50) : harness.choose(kIterationsMax, 2000);
  shared->iterations = most;
  std::shared_ptr<ShmSegment> segment;
  std::vector<MeshListener> listeners;
  std::vector<MeshAddress> addresses;
  if (!job.tcp) segment = *ShmSegment::create({.ranks = job.ranks, .epoch = 1, .key = 7});
  for (int r = 0; job.tcp && r < job.ranks; ++r) {
    listeners.push_back(MeshListener::open("127.0.0.1").value());
    addresses.push_back(listeners.back().address());
  }
  const std::vector<int> cpus = usable_cpus();
  job.own_cores = job.ranks <= int(cpus.size());
  const double busy = busy_seconds();
  const auto start = Clock::now();
  std::vector<int> pids;
  for (int r = 0; r < job.ranks; ++r) {
    const int pid = ::fork();
    if (pid == 0) {
      int code = 1;
      try {
        pin_this(cpus[std::size_t(r) % cpus.size()]);
        std::unique_ptr<Communicator> communicator;
        if (job.tcp) {
          auto links = connect_mesh({r, job.ranks, 1}, std::move(listeners[std::size_t(r)]), addresses, 7, Clock::now() + std::chrono::seconds(10)).value();
          communicator = std::make_unique<TcpCommunicator>(std::move(links), TcpOptions{.key = 7});
        } else {
          communicator = std::make_unique<ShmCommunicator>(segment, r);
        }
        Group g(std::make_shared<collective::detail::Member>(std::move(communicator), collective::detail::MemberOptions{.group = "bench", .timeout = std::chrono::seconds(60), .environment = nullptr}));
        if (job.bf16) run_rank<bfloat16>(job, *shared, g);
        else run_rank<float>(job, *shared, g);
        code = 0;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", r, error.what());
      }
      ::_exit(code);
    }
    pids.push_back(pid);
  }
  bool ok = true;
  for (int pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    ok = ok && status == 0;
  }
  if (!ok) throw Error("a rank of " + job.row + " failed");
  const double wall = seconds_since(start), all = (busy_seconds() - busy) / wall / double(cpus.size());
  const double ours = double(std::min<std::size_t>(std::size_t(job.ranks), cpus.size())) / double(cpus.size());
  const double t = median_of_slowest(shared->out_of_place[0], kIterationsMax, job.ranks, shared->iterations);
  const double t_in = median_of_slowest(shared->in_place[0], kIterationsMax, job.ranks, shared->iterations);
  const double t_min = median_of_slowest(shared->copy[0], 64, job.ranks, shared->copies);
  double b2b = 0;
  std::uint64_t wrong = 0;
  for (int r = 0; r < job.ranks; ++r) b2b = std::max(b2b, shared->back_to_back[r]), wrong += shared->wrong[r];
  const double factor = 2.0 * (job.ranks - 1) / job.ranks, size = double(job.bytes);
  std::printf("%13zu %12zu %9s %5d | %10.2f %8.2f %8.2f %6llu | %10.2f %8.2f %8.2f | %10.2f | %8.1f %6.2f %8.0f %7.0f   %s\n", job.bytes, job.bytes / (job.bf16 ? 2 : 4),
              job.bf16 ? "bfloat16" : "float", job.ranks, t * 1e6, size / t / 1e9, size / t / 1e9 * factor, static_cast<unsigned long long>(wrong), t_in * 1e6, size / t_in / 1e9,
              size / t_in / 1e9 * factor, b2b * 1e6, t_min * 1e6, t_min / t, shared->line_round_trip_ns, std::max(0.0, (all - ours) * 100), job.row.c_str());
  std::fflush(stdout);
  if (wrong != 0) throw Error("wrong results in " + job.row);
  const bool large = job.bytes >= (64u << 20);
  Row row{.row = job.row, .value = large ? t * 1e3 : t * 1e6};
  if (job.tcp && large) row.value = size / t / 1e9 * factor, row.unit = "GB/s", row.better = "higher";
  else if (job.tcp) row.unit = "us", row.better = "lower";
  else if (large) row.floor = t_min * 1e3;
  else if (job.bytes <= 64) row.floor = shared->line_round_trip_ns / 1e3;
  harness.report(row);
  if (!job.efficiency.empty()) harness.report({.row = job.efficiency, .value = t_min / t, .unit = "x", .better = "higher"});
  ::munmap(shared, sizeof(Shared));
}

const std::vector<Job> kJobs = {
    {"collective/all_reduce/8B/2", 8},
    {"collective/all_reduce/1KiB/2", 1 << 10},
    {"collective/all_reduce/64KiB/2", 64 << 10},
    {"collective/all_reduce/1MiB/2", 1 << 20},
    {"collective/all_reduce/16MiB/2", 16 << 20},
    {.row = "collective/all_reduce/64MiB/2", .bytes = 64 << 20, .efficiency = "collective/all_reduce/64MiB/2_efficiency"},
    {.row = "collective/all_reduce/256MiB/2", .bytes = 256 << 20, .efficiency = "collective/all_reduce/256MiB/2_efficiency"},
    {"collective/all_reduce/8B/4", 8, 4},
    {"collective/all_reduce/64KiB/4", 64 << 10, 4},
    {"collective/all_reduce/256MiB/4", 256 << 20, 4},
    {"collective/all_reduce/bf16_256MiB/2", 256 << 20, 2, true},
    {.row = "collective/tcp/1KiB/2", .bytes = 1 << 10, .tcp = true},
    {.row = "collective/tcp/64MiB/2", .bytes = 64 << 20, .tcp = true},
};

void measure(Harness& harness) {
  print_head();
  for (const Job& job : kJobs)
    if (harness.wants(job.row)) run_job(harness, job);
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

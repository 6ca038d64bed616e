#include "bench/collective_ranks.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "bench/harness.h"
#include "bench/kernels_peak.h"
#include "collective/hier/communicator.h"
#include "collective/group/member.h"
#include "collective/shm/communicator.h"
#include "collective/tcp/mesh.h"
#include "kernels/cpu/copy/copy.h"

namespace troupe::bench {
namespace {

using namespace collective;

constexpr int kRanksMax = 8;
constexpr int kCopiesMax = 64;
constexpr auto kDeadline = std::chrono::seconds(60);  // of an operation, and of the mesh to stand

/// What the first two ranks see of each other: a line's round trip, and multiply-adds a second, alone and both at once.
struct Sight {
  double round_trip_ns = 0, alone = 0, together = 0;
};

/// Seconds of each iteration, by rank: written by the ranks, read by their parent.
struct Shared {
  std::atomic<std::uint64_t> ball alignas(128) = 0;
  std::atomic<std::uint64_t> back alignas(128) = 0;
  Sight before, after;
  double copy[kRanksMax][kCopiesMax], out_of_place[kRanksMax][kIterationsMax], in_place[kRanksMax][kIterationsMax];
  double back_to_back[kRanksMax];
  std::uint64_t wrong[kRanksMax], wrong_in_place[kRanksMax];
};

/// Pages that parent and ranks share; new ones are zero.
struct SharedPages {
  SharedPages() {
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error("no memory for the ranks' times");
    at = ::new (memory) Shared;
  }
  ~SharedPages() { ::munmap(at, sizeof(Shared)); }
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  Shared* at;
};

/// Touched memory that nobody else needs, aligned as a large vector is.
template <class T> struct Buffer {
  explicit Buffer(std::size_t n)
      : data(static_cast<T*>(
            ::mmap(nullptr, n * sizeof(T) + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))),
        count(n) {
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

/// What rank r puts in at i: whole numbers so small that every sum is exact, in bfloat16 too.
float input(int rank, std::size_t i) { return float(1 + (std::size_t(rank) * 7 + i * 3) % 5); }

template <class T> std::uint64_t mismatches(const Buffer<T>& result, int ranks) {
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < result.count; ++i) {
    float want = 0;
    for (int r = 0; r < ranks; ++r) want += input(r, i);
    wrong += float(result.data[i]) != want;
  }
  return wrong;
}

/// Nanoseconds, of ranks 0 and 1. The median of many short matches: whoever is put off its core in the middle spoils
/// one of them only.
double line_round_trip(Shared& shared, int rank) {
  constexpr std::uint64_t kMatches = 100, kBalls = 200;
  Samples matches;
  for (std::uint64_t match = 0; match < kMatches; ++match) {
    const auto start = Clock::now();
    for (std::uint64_t i = match * kBalls + 1; i <= (match + 1) * kBalls; ++i) {
      if (rank == 0) {
        shared.ball.store(i, std::memory_order_release);
        while (shared.back.load(std::memory_order_acquire) != i) {}
      } else {
        while (shared.ball.load(std::memory_order_acquire) != i) {}
        shared.back.store(i, std::memory_order_release);
      }
    }
    matches.add(seconds_since(start) * 1e9 / double(kBalls));
  }
  return matches.median();
}

/// Ranks beyond the first two sleep in the barriers meanwhile.
void look(Group& g, Shared& shared, Sight& sight) {
  constexpr double kSeconds = 1e-3;
  const bool first = g.rank() == 0;
  shared.ball = 0, shared.back = 0;
  g.barrier();
  const double round_trip_ns = g.rank() < 2 ? line_round_trip(shared, g.rank()) : 0;
  g.barrier();
  const double alone = first ? multiply_add_peak(kSeconds) : 0;
  g.barrier();
  const double together = g.rank() < 2 ? multiply_add_peak(kSeconds) : 0;
  g.barrier();
  if (first) sight = {round_trip_ns, alone, together};
}

/// Each time after a barrier.
template <class Step> void timed(Group& g, double* times, int count, const Step& step) {
  for (int i = 0; i < count; ++i) {
    g.barrier();
    const auto start = Clock::now();
    step();
    times[i] = seconds_since(start);
  }
}

template <class T> void run_rank(const Job& job, const Effort& effort, Shared& shared, Group g) {
  const int me = g.rank();
  Buffer<T> in(job.bytes / sizeof(T)), out(in.count);
  for (std::size_t i = 0; i < in.count; ++i) in.data[i] = T(input(me, i));
  const auto copy = [&] { kernels::copy(out.data, in.data, job.bytes, {.stream = job.bytes >= (2u << 20)}); };
  g.all_reduce(in.span(), out.span());
  shared.wrong[me] = mismatches(out, g.size());
  std::copy(in.data, in.data + in.count, out.data);
  g.all_reduce(out.span());
  shared.wrong_in_place[me] = mismatches(out, g.size());
  look(g, shared, shared.before);
  timed(g, shared.copy[me], effort.copies / 2, copy);
  timed(g, shared.out_of_place[me], effort.iterations, [&] { g.all_reduce(in.span(), out.span()); });
  timed(g, shared.copy[me] + effort.copies / 2, effort.copies - effort.copies / 2, copy);
  look(g, shared, shared.after);
  std::copy(in.data, in.data + in.count, out.data);
  timed(g, shared.in_place[me], effort.iterations, [&] { g.all_reduce(out.span()); });
  g.barrier();
  const auto start = Clock::now();
  for (int i = 0; i < effort.iterations; ++i) g.all_reduce(in.span(), out.span());
  shared.back_to_back[me] = seconds_since(start) / effort.iterations;
  g.barrier();
}

/// What the ranks inherit: made before the fork. One segment a node, or none.
struct Road {
  std::vector<std::shared_ptr<ShmSegment>> segments;
  std::vector<MeshListener> listeners;
  std::vector<MeshAddress> addresses;
};
constexpr std::uint64_t kKey = 7;

int ranks_a_node(const Job& job) { return job.wire == Wire::kHier ? 2 : job.ranks; }

Road make_road(const Job& job) {
  Road road;
  const int here = ranks_a_node(job);
  for (int first = 0; job.wire != Wire::kTcp && first < job.ranks; first += here)
    road.segments.push_back(ShmSegment::create({.ranks = here, .epoch = 1, .key = kKey}).value());
  for (int r = 0; job.wire != Wire::kShm && r < job.ranks; ++r) {
    road.listeners.push_back(MeshListener::open("127.0.0.1").value());
    road.addresses.push_back(road.listeners.back().address());
  }
  return road;
}

std::unique_ptr<Communicator> communicator_of(Road& road, const Job& job, int rank) {
  const int here = ranks_a_node(job);
  std::unique_ptr<ShmCommunicator> inside;
  if (!road.segments.empty())
    inside = std::make_unique<ShmCommunicator>(road.segments[std::size_t(rank / here)], rank % here);
  if (job.wire == Wire::kShm) return inside;
  auto links = connect_mesh({rank, job.ranks, 1}, std::move(road.listeners[std::size_t(rank)]), road.addresses, kKey,
                            Clock::now() + kDeadline)
                   .value();
  auto across = std::make_unique<TcpCommunicator>(std::move(links), TcpOptions{.key = kKey});
  if (job.wire == Wire::kHier) {
    std::vector<int> nodes;
    for (int r = 0; r < job.ranks; ++r) nodes.push_back(r / here);
    return std::make_unique<HierCommunicator>(nodes, std::move(inside), std::move(across));
  }
  return across;
}

/// The whole life of a rank's process: its exit code.
int rank_main(const Job& job, const Effort& effort, Shared& shared, Road& road, int rank) {
  try {
    const std::vector<int> cpus = usable_cpus();
    pin_process(cpus[std::size_t(rank) % cpus.size()]);
    Group g(std::make_shared<collective::detail::Member>(
        communicator_of(road, job, rank),
        collective::detail::MemberOptions{.group = "bench", .timeout = kDeadline, .environment = nullptr}));
    if (job.bf16) run_rank<bfloat16>(job, effort, shared, g);
    else run_rank<float>(job, effort, shared, g);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    return 1;
  }
}

/// Slowest rank of each iteration, then the median.
template <std::size_t N> double median_of_slowest(const double (&times)[kRanksMax][N], int ranks, int iterations) {
  Samples samples;
  for (int i = 0; i < iterations; ++i) {
    double slowest = 0;
    for (int r = 0; r < ranks; ++r) slowest = std::max(slowest, times[r][i]);
    samples.add(slowest);
  }
  return samples.median();
}

/// CPU seconds of the whole machine that were not idle; those that the host gave to another machine count.
double busy_seconds() {
  std::ifstream in("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, interrupts = 0, soft_interrupts = 0, stolen = 0;
  in >> cpu >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen;
  return (user + nice + system + interrupts + soft_interrupts + stolen) / double(::sysconf(_SC_CLK_TCK));
}

/// CPU seconds of the ranks that have ended.
double ranks_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) * 1e-6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Cores cores_of(const Sight& before, const Sight& after) {
  constexpr double kAlone = 0.75, kSame = 4.0 / 3;
  for (const Sight& sight : {before, after})
    if (sight.together < kAlone * sight.alone) return Cores::kOne;
  const auto [least, most] = std::minmax(before.round_trip_ns, after.round_trip_ns);
  return most > kSame * least ? Cores::kMoved : Cores::kApart;
}

Outcome outcome_of(const Job& job, const Effort& effort, const Shared& shared) {
  Outcome out{.out_of_place = median_of_slowest(shared.out_of_place, job.ranks, effort.iterations),
              .in_place = median_of_slowest(shared.in_place, job.ranks, effort.iterations),
              .t_min = median_of_slowest(shared.copy, job.ranks, effort.copies),
              .round_trip_ns = std::min(shared.before.round_trip_ns, shared.after.round_trip_ns),
              .cores = usable_cpus().size() > 1 ? cores_of(shared.before, shared.after) : Cores::kOne};
  for (int r = 0; r < job.ranks; ++r) {
    out.back_to_back = std::max(out.back_to_back, shared.back_to_back[r]);
    out.wrong += shared.wrong[r];
    out.wrong_in_place += shared.wrong_in_place[r];
  }
  return out;
}

}  // namespace

const char* name_of(Wire wire) { return wire == Wire::kShm ? "shm" : wire == Wire::kTcp ? "tcp" : "hier"; }

const char* name_of(Cores cores) {
  switch (cores) {
    case Cores::kApart: return "apart";
    case Cores::kMoved: return "moved";
    case Cores::kOne: return "one";
  }
  return "";
}

Outcome run_ranks(const Job& job, const Effort& effort) {
  const SharedPages pages;
  Road road = make_road(job);
  const double others = busy_seconds() - ranks_seconds();
  const auto start = Clock::now();
  std::vector<int> pids;
  for (int r = 0; r < job.ranks; ++r) {
    const int pid = ::fork();
    if (pid == 0) ::_exit(rank_main(job, effort, *pages.at, road, r));
    if (pid < 0) throw Error("fork failed");
    pids.push_back(pid);
  }
  bool ok = true;
  for (const int pid : pids) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    ok = ok && status == 0;
  }
  if (!ok) throw Error("a rank of " + job.row + " failed");
  Outcome out = outcome_of(job, effort, *pages.at);
  out.others = std::max(0.0, busy_seconds() - ranks_seconds() - others) / seconds_since(start) /
               double(::sysconf(_SC_NPROCESSORS_ONLN));
  return out;
}

}  // namespace troupe::bench

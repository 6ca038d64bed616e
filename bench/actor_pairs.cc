// Actor calls against a futex ping-pong between the same two threads: the caller's and the one that runs the actor's
// methods.
//
// Twenty fresh pairs a row (a new actor process each), because the kernel places each pair as it likes and leaves it
// there. A pair makes calls and round trips in turn; its figures are the medians of its samples, the row's those of the
// pairs.
//
//   actor/sync_over_floor            both threads asleep for 5 ms before each sample, nobody pinned, defaults: call
//                                    over futex
//   actor/sync_minus_floor_us        the same, call minus futex
//   actor/sync_apart_over_floor      the caller's process on one core, the actor's on another
//   actor/sync_together_over_floor   both on one core
//   actor/sync_us, actor/sync_p99_us, actor/sync_floor_us   of the unpinned pairs; p99 over all samples of all pairs
//   actor/sync_busy_over_futex       back to back, nobody pinned, beside two foreign busy loops: call over futex, both
//                                    means of a second for each pair (five pairs)
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "bench/harness.h"
#include <troupe/troupe.h>

namespace troupe::bench {
namespace {

struct Words {
  std::atomic<std::uint32_t> ping{0}, pong{0};
};

void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) == value)
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}
void bump(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

/// Two words in memory that another process of this machine opens by path.
class SharedWords {
 public:
  SharedWords() : fd_(::memfd_create("bench-words", MFD_CLOEXEC)) {
    if (fd_ < 0 || ::ftruncate(fd_, sizeof(Words)) != 0) throw Error("no memory for the floor");
    map(fd_);
  }
  explicit SharedWords(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    if (fd_ < 0) throw Error("the floor's memory cannot be opened");
    map(fd_);
  }
  ~SharedWords() {
    ::munmap(words_, sizeof(Words));
    ::close(fd_);
  }
  SharedWords(const SharedWords&) = delete;
  SharedWords& operator=(const SharedWords&) = delete;
  Words& operator*() const { return *words_; }
  std::string path() const { return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_); }

 private:
  void map(int fd) {
    void* memory = ::mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) throw Error("no memory for the floor");
    words_ = static_cast<Words*>(memory);
  }
  int fd_;
  Words* words_ = nullptr;
};

class Partner {
 public:
  std::string ok() { return "ok"; }
  int pin(int cpu) {
    pin_process(cpu);
    return cpu;
  }
  int open(std::string path) {
    words_ = std::make_unique<SharedWords>(path);
    return 0;
  }
  /// Answers so many round trips on the thread that runs methods.
  int answer(int round_trips) {
    Words& words = **words_;
    for (int i = 0; i < round_trips; ++i) {
      wait_while(words.ping, answered_);
      ++answered_;
      bump(words.pong);
    }
    return round_trips;
  }

 private:
  std::unique_ptr<SharedWords> words_;
  std::uint32_t answered_ = 0;
};

/// One actor, and the words that it shares with this process.
class Pair {
 public:
  Pair() {
    get(partner_.call<&Partner::ok>());
    get(partner_.call<&Partner::open>(words_.path()));
  }
  ~Pair() {
    const auto death = monitor(partner_);
    kill(partner_);
    get(death);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  void pin(int there) { get(partner_.call<&Partner::pin>(there)); }
  void call() { get(partner_.call<&Partner::ok>()); }
  ObjectRef<int> answering(int round_trips) { return partner_.call<&Partner::answer>(round_trips); }
  void round_trip() {
    const std::uint32_t before = (*words_).pong.load(std::memory_order_acquire);
    bump((*words_).ping);
    wait_while((*words_).pong, before);
  }

 private:
  SharedWords words_;
  ActorHandle<Partner> partner_ = actor<Partner>.remote();
};

struct Asleep {
  Samples calls, floors, all_calls, all_floors;  // medians of pairs; every sample
};

constexpr auto kSleep = std::chrono::milliseconds(5);

/// `here` and `there`: CPUs of this process and of the actor's; -1: anywhere.
Asleep asleep(Harness& harness, int pairs, int here, int there) {
  Asleep out;
  pin_process(here);
  for (int p = 0; p < pairs; ++p) {
    Pair pair;
    if (there >= 0) pair.pin(there);
    Samples calls, floors;
    for (int i = harness.choose(20, 5); i > 0; --i) {
      std::this_thread::sleep_for(kSleep);
      auto start = Clock::now();
      pair.call();
      calls.add(seconds_since(start) * 1e6);
      out.all_calls.add(seconds_since(start) * 1e6);
      const auto done = pair.answering(1);
      std::this_thread::sleep_for(kSleep);  // the partner is in its futex by then
      start = Clock::now();
      pair.round_trip();
      floors.add(seconds_since(start) * 1e6);
      out.all_floors.add(seconds_since(start) * 1e6);
      get(done);
    }
    out.calls.add(calls.median());
    out.floors.add(floors.median());
  }
  pin_process(-1);
  return out;
}

void report_asleep(Harness& harness) {
  const int pairs = harness.choose(20, 4);
  Asleep free = asleep(harness, pairs, -1, -1);
  const double call = free.calls.median(), floor = free.floors.median();
  harness.report({.row = "actor/sync_over_floor", .value = call / floor, .floor = 1.0});
  harness.report({.row = "actor/sync_minus_floor_us", .value = call - floor});
  harness.report({.row = "actor/sync_us", .value = call, .spread = free.calls.deviation(), .floor = floor});
  harness.report({.row = "actor/sync_p99_us",
                  .value = free.all_calls.quantile(0.99),
                  .floor = free.all_floors.quantile(0.99)});
  const std::vector<int> cpus = usable_cpus();
  Asleep apart = asleep(harness, pairs, cpus.front(), cpus.back());
  harness.report({.row = "actor/sync_apart_over_floor",
                  .value = apart.calls.median() / apart.floors.median(),
                  .floor = 1.0});
  Asleep together = asleep(harness, pairs, cpus.front(), cpus.front());
  harness.report({.row = "actor/sync_together_over_floor",
                  .value = together.calls.median() / together.floors.median(),
                  .floor = 1.0});
}

void report_busy(Harness& harness) {
  Samples calls, floors;
  const BusyNeighbours neighbours(2);
  for (int p = harness.choose(5, 2); p > 0; --p) {
    Pair pair;
    const double budget = harness.choose(1.0, 0.1);
    constexpr int kBatch = 100;
    int done = 0;
    auto start = Clock::now();
    for (; seconds_since(start) < budget; done += kBatch)
      for (int i = 0; i < kBatch; ++i) pair.call();
    calls.add(seconds_since(start) * 1e6 / done);
    done = 0;
    start = Clock::now();
    for (; seconds_since(start) < budget; done += kBatch) {
      const auto answers = pair.answering(kBatch);
      for (int i = 0; i < kBatch; ++i) pair.round_trip();
      get(answers);
    }
    floors.add(seconds_since(start) * 1e6 / done);
  }
  harness.report({.row = "actor/sync_busy_over_futex", .value = calls.median() / floors.median(), .floor = 1.0});
  harness.report({.row = "actor/sync_busy_us",
                  .value = calls.median(),
                  .spread = calls.deviation(),
                  .floor = floors.median(),
                  .unit = "us",
                  .better = "lower"});
}

const std::vector<std::string> kAsleepRows{"actor/sync_over_floor",       "actor/sync_minus_floor_us",
                                           "actor/sync_us",               "actor/sync_p99_us",
                                           "actor/sync_apart_over_floor", "actor/sync_together_over_floor"};
const std::vector<std::string> kBusyRows{"actor/sync_busy_over_futex", "actor/sync_busy_us"};

std::vector<std::string> all_rows() {
  std::vector<std::string> rows = kAsleepRows;
  rows.insert(rows.end(), kBusyRows.begin(), kBusyRows.end());
  return rows;
}

void measure(Harness& harness) {
  if (harness.wants_any(kAsleepRows)) report_asleep(harness);
  if (harness.wants_any(kBusyRows)) report_busy(harness);
}

}  // namespace

const Program program{.rows = all_rows(), .measure = &measure};

}  // namespace troupe::bench

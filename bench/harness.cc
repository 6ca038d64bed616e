#include "bench/harness.h"

#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <numeric>
#include <stdexcept>

namespace troupe::bench {

namespace fs = std::filesystem;

Harness::Harness(std::string only, bool quick, std::map<std::string, std::string> peer_files)
    : only_text_(std::move(only)), only_(only_text_), quick_(quick), peer_files_(std::move(peer_files)) {}

bool Harness::wants(const std::string& row) const { return only_text_.empty() || std::regex_search(row, only_); }

bool Harness::wants_any(const std::vector<std::string>& rows) const {
  return std::any_of(rows.begin(), rows.end(), [this](const std::string& row) { return wants(row); });
}

Rate Harness::rate(const std::function<void()>& step, double multiplier) {
  const double scale = quick_ ? 0.1 : 1;
  std::size_t calls = 0;
  for (const auto start = Clock::now(); seconds_since(start) < scale; ++calls) step();
  const std::size_t stride = calls / 10 + 1;
  Samples trials;
  for (int trial = 0; trial < 4; ++trial) {
    std::size_t done = 0;
    const auto start = Clock::now();
    double elapsed = 0;
    while ((elapsed = seconds_since(start)) < 2 * scale) {
      for (std::size_t i = 0; i < stride; ++i) step();
      done += stride;
    }
    trials.add(multiplier * double(done) / elapsed);
  }
  return {trials.mean(), trials.deviation()};
}

void Harness::report(Row row) {
  if (wants(row.row)) rows_.push_back(std::move(row));
}

double Samples::quantile(double q) {
  if (values_.empty()) throw std::logic_error("no samples");
  if (!sorted_) std::sort(values_.begin(), values_.end());
  sorted_ = true;
  return values_[std::min(values_.size() - 1, std::size_t(q * double(values_.size())))];
}
double Samples::mean() const { return std::accumulate(values_.begin(), values_.end(), 0.0) / double(values_.size()); }
double Samples::deviation() const {
  const double middle = mean();
  double sum = 0;
  for (const double v : values_) sum += (v - middle) * (v - middle);
  return values_.size() > 1 ? std::sqrt(sum / double(values_.size() - 1)) : 0;
}

double anonymous_bytes(int pid) {
  std::ifstream file("/proc/" + (pid ? std::to_string(pid) : std::string("self")) + "/status");
  for (std::string name; file >> name; file.ignore(4096, '\n'))
    if (name == "RssAnon:") {
      double kilobytes = 0;
      file >> kilobytes;
      return kilobytes * 1024;
    }
  return 0;
}

namespace {
/// The processes that run the same executable as this one: a whole embedded cluster.
std::vector<int> processes_of_cluster() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  std::vector<int> found;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") == std::string::npos &&
        fs::read_symlink(entry.path() / "exe", error) == self)
      found.push_back(std::stoi(name));
  }
  if (found.size() < 4)
    throw std::logic_error("driver, daemon, head and launcher are four processes; found " +
                           std::to_string(found.size()));
  return found;
}
}  // namespace

double anonymous_bytes_of_cluster() {
  double sum = 0;
  for (const int pid : processes_of_cluster()) sum += anonymous_bytes(pid);
  return sum;
}

double cpu_seconds_of_cluster() {
  std::error_code error;
  double nanoseconds = 0;
  for (const int pid : processes_of_cluster())
    for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
      std::ifstream file(thread.path() / "schedstat");  // the first number is exact; ticks would miss short wake-ups
      double on_cpu = 0;
      file >> on_cpu;
      nanoseconds += on_cpu;
    }
  return nanoseconds / 1e9;
}

std::vector<int> usable_cpus() {
  static const std::vector<int> cpus = [] {
    cpu_set_t set;
    std::vector<int> found;
    if (::sched_getaffinity(0, sizeof(set), &set) == 0)
      for (int i = 0; i < CPU_SETSIZE; ++i) if (CPU_ISSET(i, &set)) found.push_back(i);
    return found;
  }();
  return cpus;
}

namespace {
cpu_set_t set_of(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= 0) CPU_SET(std::size_t(cpu), &set);
  else for (const int each : usable_cpus()) CPU_SET(std::size_t(each), &set);
  return set;
}
}  // namespace

void pin_process(int cpu) {
  const cpu_set_t set = set_of(cpu);
  std::error_code error;
  for (const auto& thread : fs::directory_iterator("/proc/self/task", error))
    ::sched_setaffinity(std::atoi(thread.path().filename().c_str()), sizeof(set), &set);
}

// --------------------------------------------------------------------------------------------------------- futex floor

struct FutexFloor::Page { std::atomic<std::uint32_t> ping{0}, pong{0}; };

namespace {
void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) == value)
    ::syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}
void bump(std::atomic<std::uint32_t>& word) {
  word.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}
}  // namespace

FutexFloor::FutexFloor() {
  void* memory = ::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap failed");
  page_ = new (memory) Page;
  const pid_t parent = ::getpid();
  child_ = ::fork();  // the child makes system calls only: no thread of the parent is in it
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    for (std::uint32_t seen = 0;; ++seen) {
      wait_while(page_->ping, seen);
      bump(page_->pong);
    }
  }
  if (child_ < 0) throw std::runtime_error("fork failed");
}

FutexFloor::~FutexFloor() {
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
  ::munmap(page_, sizeof(Page));
}

BusyNeighbours::BusyNeighbours(int count) {
  const pid_t parent = ::getpid();
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();  // as above
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(0);
      for (volatile std::uint64_t turns = 0;;) turns = turns + 1;
    }
    if (child < 0) throw std::runtime_error("fork failed");
    children_.push_back(child);
  }
}

BusyNeighbours::~BusyNeighbours() {
  for (const int child : children_) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

void FutexFloor::pin(int cpu) {
  const cpu_set_t set = set_of(cpu);
  ::sched_setaffinity(child_, sizeof(set), &set);
}

void FutexFloor::round_trip() {
  const std::uint32_t before = page_->pong.load(std::memory_order_acquire);
  bump(page_->ping);
  wait_while(page_->pong, before);
}

}  // namespace troupe::bench

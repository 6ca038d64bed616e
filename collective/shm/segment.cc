#include "collective/shm/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>

#include <fmt/format.h>

#include "core/base/barriers.h"

namespace troupe::collective {
namespace {

/// 32 MiB where the system does not say.
std::size_t shared_cache_bytes() {
  std::size_t kib = 0;
  std::ifstream("/sys/devices/system/cpu/cpu0/cache/index3/size") >> kib;  // "32768K"
  return kib ? kib << 10 : 32u << 20;
}

constexpr std::uint64_t kMagic = 0x5f65707572742e63;  // any number that is unlikely elsewhere
constexpr std::uint32_t kVersion = 2;
constexpr std::size_t kPage = 4096, kPresent = 256u << 10;

std::size_t up(std::size_t n) { return (n + kPage - 1) / kPage * kPage; }

struct Offsets {
  std::size_t lines, written, read, slots, messages, total;
};
Offsets offsets_of(std::size_t ranks, std::size_t slot_bytes, std::size_t message_bytes) {
  Offsets o{};
  o.lines = up(sizeof(ShmControl));
  o.written = o.lines + up(ranks * sizeof(RankLines));
  o.read = o.written + up(ranks * ranks * sizeof(Written));
  o.slots = o.read + up(ranks * ranks * sizeof(Read));
  o.messages = o.slots + ranks * kRing * slot_bytes;
  o.total = o.messages + ranks * ranks * message_bytes;
  return o;
}

// Only touched pages count; the sum of what all pairs can touch is at most 256 MiB.
std::size_t usual_messages(int ranks) {
  return ranks <= 16 ? 256u << 10 : ranks <= 64 ? 64u << 10 : ranks <= 128 ? 16u << 10 : kPage;
}

ErrorPtr failed_call(const char* what) {
  return make_error<CollectiveError>(CollectiveError::from({}, fmt::format("{}: {}", what, std::strerror(errno))));
}

/// A process that is killed closes its files a moment before its end can be seen.
bool has_ended(int pid) {
  constexpr int kMomentMs = 100;
  const UniqueFd fd(int(::syscall(SYS_pidfd_open, pid, 0)));
  if (!fd) return errno == ESRCH;
  pollfd polled{fd.get(), POLLIN, 0};
  return ::poll(&polled, 1, kMomentMs) > 0;
}

}  // namespace

std::size_t usual_slot(int ranks, std::size_t shared_cache) {
  constexpr std::size_t kMeasuredWith = 32u << 20, kLeast = 64u << 10, kMost = 2u << 20, kAllTogether = 256u << 20;
  std::size_t slot = ranks <= 2     ? 2u << 20
                     : ranks <= 8   ? 1u << 20
                     : ranks <= 16  ? 512u << 10
                     : ranks <= 128 ? 128u << 10
                                    : 64u << 10;
  for (std::size_t cache = shared_cache; cache >= 2 * kMeasuredWith && slot < kMost; cache /= 2) slot *= 2;
  for (std::size_t cache = shared_cache; cache < kMeasuredWith && slot > kLeast; cache *= 2) slot /= 2;
  while (slot > kLeast && std::size_t(ranks) * kRing * slot > kAllTogether) slot /= 2;
  return slot;
}

ShmSegment::ShmSegment(UniqueFd fd, std::byte* memory, const Sizes& sizes)
    : fd_(std::move(fd)),
      memory_(memory),
      bytes_(sizes.total_bytes),
      control_(reinterpret_cast<ShmControl*>(memory)),
      ranks_(sizes.ranks),
      slot_bytes_(sizes.slot_bytes),
      message_bytes_(sizes.message_bytes) {
  const Offsets o = offsets_of(ranks_, slot_bytes_, message_bytes_);
  lines_ = reinterpret_cast<RankLines*>(memory + o.lines);
  written_ = reinterpret_cast<Written*>(memory + o.written);
  read_ = reinterpret_cast<Read*>(memory + o.read);
  slots_ = memory + o.slots;
  messages_ = memory + o.messages;
}

ShmSegment::~ShmSegment() { ::munmap(memory_, bytes_); }

Result<std::shared_ptr<ShmSegment>> ShmSegment::create(const ShmLayout& layout) {
  if (layout.ranks < 1 || layout.ranks > kShmRanksMax)
    return InvalidArgumentError(
        fmt::format("a group in shared memory has 1 to {} ranks, not {}", kShmRanksMax, layout.ranks));
  const std::size_t slot = layout.slot_bytes ? up(layout.slot_bytes) : usual_slot(layout.ranks, shared_cache_bytes());
  const std::size_t messages = usual_messages(layout.ranks);
  const std::size_t total = offsets_of(std::size_t(layout.ranks), slot, messages).total;
  UniqueFd fd(::memfd_create("troupe-collective", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), off_t(total)) != 0) return failed_call("making a group's shared memory");
  // Nobody can pull the memory away from under the others.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return failed_call("sealing a group's shared memory");
  void* memory = ::mmap(nullptr, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return failed_call("mapping a group's shared memory");
  auto* control = static_cast<ShmControl*>(memory);  // a new file is all zero, which is how everything begins
  control->magic = kMagic;
  control->version = kVersion;
  control->ranks = std::uint32_t(layout.ranks);
  control->epoch = layout.epoch;
  control->key = layout.key;
  control->slot_bytes = slot;
  control->message_bytes = messages;
  control->total_bytes = total;
  const Sizes sizes{std::size_t(layout.ranks), slot, messages, total};
  return std::shared_ptr<ShmSegment>(new ShmSegment(std::move(fd), static_cast<std::byte*>(memory), sizes));
}

Result<std::shared_ptr<ShmSegment>> ShmSegment::attach(UniqueFd fd, std::uint64_t key) {
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return failed_call("looking at a group's shared memory");
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || std::size_t(info.st_size) < sizeof(ShmControl))
    return CollectiveError::from({}, "this is not a group's shared memory");
  const auto bytes = std::size_t(info.st_size);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return failed_call("mapping a group's shared memory");
  const auto* control = static_cast<const ShmControl*>(memory);
  // read once: who shares the memory may change it
  const Sizes sizes{control->ranks, control->slot_bytes, control->message_bytes, bytes};
  const bool ours = control->magic == kMagic && control->version == kVersion && control->key == key &&
                    sizes.ranks >= 1 && sizes.ranks <= std::size_t(kShmRanksMax) && control->total_bytes == bytes &&
                    sizes.slot_bytes <= bytes && sizes.message_bytes <= bytes &&
                    offsets_of(sizes.ranks, sizes.slot_bytes, sizes.message_bytes).total == bytes;
  if (!ours) {
    ::munmap(memory, bytes);
    return CollectiveError::from({.reason = Reason::kStale},
                                 "the shared memory belongs to another group, epoch or build");
  }
  return std::shared_ptr<ShmSegment>(new ShmSegment(std::move(fd), static_cast<std::byte*>(memory), sizes));
}

Result<std::shared_ptr<ShmSegment>> ShmSegment::attach_from(int pid, int fd, std::uint64_t key) {
  UniqueFd opened(::open(fmt::format("/proc/{}/fd/{}", pid, fd).c_str(), O_RDWR | O_CLOEXEC));
  if (!opened) {
    ErrorPtr error = failed_call("opening a group's shared memory");
    if (has_ended(pid))
      return WorkerCrashedError(fmt::format("process {}, which had made the group's shared memory, is gone", pid));
    return error;
  }
  return attach(std::move(opened), key);
}

Failure failure_of_attaching(const ErrorPtr& error, int maker) {
  if (error->code() != ErrorCode::kWorkerCrashed) return {Reason::kBackend, error->message(), {}};
  return {Reason::kDied, fmt::format("rank {} died: {}", maker, error->message()), {maker}};
}

void ShmSegment::enter(int rank) {
  if (!register_for_barriers()) control_->strong_fence.store(1, std::memory_order_seq_cst);
  // Present once and for all: a page fault of a new page costs more than what a small message is for. The rest comes
  // with the first large ones, which it costs as much as it would cost here: 5 ms for 8 MiB.
  const std::size_t present = std::min(slot_bytes_, kPresent);
  for (std::size_t slot = 0; slot < kRing; ++slot) {
#ifdef MADV_POPULATE_WRITE
    ::madvise(buffer(rank, slot), present, MADV_POPULATE_WRITE);
#endif
#ifdef MADV_POPULATE_READ
    for (std::size_t r = 0; r < ranks_; ++r) ::madvise(buffer(int(r), slot), present, MADV_POPULATE_READ);
#endif
  }
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  for (int cpu = 0; cpu < 1024; ++cpu)
    if (CPU_ISSET(cpu, &cores))
      lines_[rank].cores[cpu / 64].fetch_or(std::uint64_t(1) << (cpu % 64), std::memory_order_relaxed);
  lines_[rank].started.store(process_start_time(::getpid()), std::memory_order_relaxed);
  lines_[rank].pid.store(::getpid(), std::memory_order_release);
}

bool ShmSegment::count_cores() {
  std::uint64_t all[16] = {};
  for (std::size_t r = 0; r < ranks_; ++r) {
    if (lines_[r].pid.load(std::memory_order_acquire) == 0) return false;
    for (int i = 0; i < 16; ++i) all[i] |= lines_[r].cores[i].load(std::memory_order_relaxed);
  }
  std::size_t cores = 0;
  for (std::uint64_t word : all) cores += std::size_t(std::popcount(word));
  cores_fit_.store(cores >= ranks_ ? 1 : 0, std::memory_order_relaxed);
  return cores >= ranks_;
}

void ShmSegment::ring(int rank) {
  lines_[rank].bell.fetch_add(1, std::memory_order_seq_cst);
  if (lines_[rank].sleeping.load(std::memory_order_seq_cst) != 0)
    ::syscall(SYS_futex, &lines_[rank].bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void ShmSegment::leave(int rank) { lines_[rank].pid.store(-1, std::memory_order_release); }

Failure ShmSegment::failure() const {
  const std::uint32_t failed = control_->failed.load(std::memory_order_acquire);
  if ((failed & ShmControl::kReasonOnly) != 0) return {Reason(failed & 0xff), "a rank recorded no text", {}};
  if (failed == 0 || failed > kFailureRecords) return {Reason::kBackend, "no reason was given", {}};
  const FailureRecord& record = control_->records[failed - 1];
  Failure failure{Reason(record.reason), record.text, {}};
  for (int r = 0; r < kShmRanksMax; ++r)  // of a larger group, perhaps
    if (record.missing[r / 32] >> (r % 32) & 1) failure.missing_ranks.push_back(r);
  return failure;
}

void ShmSegment::fail(const Failure& failure) {
  if (!has_failed()) {  // SG-3
    const std::uint32_t taken = control_->records_taken.fetch_add(1, std::memory_order_relaxed);
    std::uint32_t mine = ShmControl::kReasonOnly | std::uint32_t(failure.reason);
    if (taken < kFailureRecords) {
      FailureRecord& record = control_->records[taken];
      record.reason = std::uint8_t(failure.reason);
      for (int rank : failure.missing_ranks)
        if (rank >= 0 && rank < kShmRanksMax) record.missing[rank / 32] |= 1u << (rank % 32);
      const std::size_t n = std::min(failure.text.size(), sizeof record.text - 1);
      std::memcpy(record.text, failure.text.data(), n);
      record.text[n] = 0;
      mine = taken + 1;
    }
    std::uint32_t none = 0;
    control_->failed.compare_exchange_strong(none, mine, std::memory_order_seq_cst);
  }
  wake_all();
}

void ShmSegment::supersede(std::uint64_t next) {
  control_->next_epoch.store(next, std::memory_order_seq_cst);
  fail({Reason::kStale, next == kDestroyed ? "the group was destroyed" : "the group was formed again", {}});
}

bool ShmSegment::await_failure(std::chrono::milliseconds limit) {
  if (has_failed()) return true;
  timespec wait{};
  wait.tv_sec = limit.count() / 1000;
  wait.tv_nsec = limit.count() % 1000 * 1'000'000;
  ::syscall(SYS_futex, &control_->failed, FUTEX_WAIT, 0, &wait, nullptr, 0);
  return has_failed();
}

void ShmSegment::wake_all() {
  ::syscall(SYS_futex, &control_->failed, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  for (std::size_t r = 0; r < ranks_; ++r) {
    lines_[r].bell.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, &lines_[r].bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

void ShmSegment::wake_all_sleepers() {
  for (std::size_t r = 0; r < ranks_; ++r) {
    if (lines_[r].sleeping.load(std::memory_order_seq_cst) == 0) continue;
    lines_[r].bell.fetch_add(1, std::memory_order_seq_cst);
    ::syscall(SYS_futex, &lines_[r].bell, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
}

std::uint32_t ShmSegment::announce_sleep(int rank) {
  const std::uint32_t seen = lines_[rank].bell.load(std::memory_order_seq_cst);
  lines_[rank].sleeping.store(1, std::memory_order_seq_cst);
  control_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  if (!barrier_in_all()) control_->strong_fence.store(1, std::memory_order_seq_cst);
  return seen;
}

void ShmSegment::wait_bell(int rank, std::uint32_t seen, std::chrono::steady_clock::time_point deadline) {
  const auto since = deadline.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  timespec until{};
  until.tv_sec = seconds.count();
  until.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(since - seconds).count();
  ::syscall(SYS_futex, &lines_[rank].bell, FUTEX_WAIT_BITSET, seen, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void ShmSegment::end_sleep(int rank) {
  lines_[rank].sleeping.store(0, std::memory_order_relaxed);
  control_->sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

std::uint64_t process_start_time(int pid) {
  char text[1024];
  UniqueFd fd(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return 0;
  const ssize_t n = ::read(fd.get(), text, sizeof text - 1);
  if (n <= 0) return 0;
  text[n] = 0;
  const char* at = std::strrchr(text, ')');  // the name before it may hold anything
  unsigned long long start = 0;
  if (!at || std::sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                         &start) != 1)
    return 0;
  return start;
}

}  // namespace troupe::collective

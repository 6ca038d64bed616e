#include "core/net/endpoint/doorbell.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

namespace troupe::net {
namespace {

constexpr std::uint64_t bit_of(std::uint32_t slot) { return std::uint64_t{1} << (slot % 64); }

int futex_flags(int operation, FutexScope scope) {
  return scope == FutexScope::kThisProcess ? operation | FUTEX_PRIVATE_FLAG : operation;
}

// Sets the bit of a slot, low level first, so that a set summary bit never outlives the look that it asks for.
void set_ready(DoorbellPage& page, std::uint32_t slot) {
  auto& word = page.words[slot / 64];
  if ((word.load(std::memory_order_seq_cst) & bit_of(slot)) == 0)
    word.fetch_or(bit_of(slot), std::memory_order_seq_cst);
  const std::uint64_t above = bit_of(slot / 64);
  if ((page.summary.load(std::memory_order_seq_cst) & above) == 0)
    page.summary.fetch_or(above, std::memory_order_seq_cst);
}

void wake_events(DoorbellPage& page) {
  page.events.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(&page.events, 1, FutexScope::kShared);
}

// An eventfd that is full, or whose process is gone, needs no ring: the result does not matter.
void write_event(int fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof(one));
}

}  // namespace

bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::chrono::steady_clock::time_point deadline, FutexScope scope) noexcept {
  using namespace std::chrono;
  timespec until{};
  timespec* limit = nullptr;
  if (deadline != steady_clock::time_point::max()) {
    const auto since = std::max(deadline.time_since_epoch(), nanoseconds(0));
    until.tv_sec = duration_cast<seconds>(since).count();
    until.tv_nsec = (since - duration_cast<seconds>(since)).count();
    limit = &until;
  }
  // The BITSET form takes an absolute time of the monotonic clock.
  const long rc = ::syscall(SYS_futex, &word, futex_flags(FUTEX_WAIT_BITSET, scope), expected, limit, nullptr,
                            FUTEX_BITSET_MATCH_ANY);
  return !(rc != 0 && errno == ETIMEDOUT);
}

void futex_wake(std::atomic<std::uint32_t>* word, int count, FutexScope scope) noexcept {
  ::syscall(SYS_futex, word, futex_flags(FUTEX_WAKE, scope), count, nullptr, nullptr, 0);
}

int current_cpu() noexcept {
#if defined(__x86_64__)
  if (__rseq_size != 0) {
    char* self;
    asm("mov %%fs:0, %0" : "=r"(self));
    const auto* area = reinterpret_cast<const volatile struct rseq*>(self + __rseq_offset);
    if (const auto cpu = static_cast<std::int32_t>(area->cpu_id); cpu >= 0) return cpu;
  }
#endif
  return ::sched_getcpu();
}

std::uint32_t SlotSet::next(std::uint32_t from) const {
  const std::uint32_t word = from / 64 % (kReadyBits / 64);
  if (const std::uint64_t here = words_[word] & (~std::uint64_t{0} << (from % 64))) {
    return word * 64 + static_cast<std::uint32_t>(std::countr_zero(here));
  }
  const std::uint64_t after = word == 63 ? 0 : summary_ & (~std::uint64_t{0} << (word + 1));
  const auto found = static_cast<std::uint32_t>(std::countr_zero(after ? after : summary_));
  return found * 64 + static_cast<std::uint32_t>(std::countr_zero(words_[found]));
}

// ---- peer

Result<PeerDoorbell> PeerDoorbell::open(int doorbell_fd, UniqueFd event) {
  Result<SharedMapping> memory = SharedMapping::open(doorbell_fd, kDoorbellBytes, kDoorbellBytes);
  if (!memory) return memory.error_ptr();
  if (const int flags = ::fcntl(event.get(), F_GETFL); flags < 0 || (flags & O_NONBLOCK) == 0) {
    return make_error<InvalidArgumentError>("the event descriptor of a peer is missing or could block us");
  }
  PeerDoorbell bell;
  bell.memory_ = *memory;
  bell.page_ = reinterpret_cast<DoorbellPage*>(bell.memory_.data());
  bell.event_ = std::move(event);
  return bell;
}

PeerDoorbell::Rang PeerDoorbell::ring(std::uint32_t slot) noexcept {
  set_ready(*page_, slot);
  const std::uint64_t sleep = page_->sleep.load(std::memory_order_seq_cst);
  const auto mode = static_cast<ListenMode>(sleep & 3);
  if (mode == ListenMode::kAwake || sleep == rung_) return Rang::kNo;  // DB-2
  rung_ = sleep;
  if (mode == ListenMode::kAsleep) {
    wake_events(*page_);
    return Rang::kFutex;
  }
  write_event(event_.get());
  return Rang::kEvent;
}

void PeerDoorbell::ring_always() noexcept {
  wake_events(*page_);
  write_event(event_.get());
}

// ---- own

Result<Doorbell> Doorbell::create() {
  Doorbell bell;
  Result<UniqueFd> fd = create_shared("troupe-doorbell", kDoorbellBytes);
  if (!fd) return fd.error_ptr();
  bell.fd_ = std::move(fd).value();
  Result<SharedMapping> memory = SharedMapping::open(bell.fd_.get(), kDoorbellBytes, kDoorbellBytes);
  if (!memory) return memory.error_ptr();
  bell.memory_ = *memory;
  bell.page_ = new (bell.memory_.data()) DoorbellPage{};
  bell.page_->cpu.store(-1, std::memory_order_relaxed);
  bell.event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (bell.event_.get() < 0) return Error(std::string("eventfd: ") + std::strerror(errno));
  bell.mode_ = ListenMode::kAwake;
  bell.set_mode(ListenMode::kUnheld);
  return bell;
}

void Doorbell::set_mode(ListenMode mode) noexcept {
  if (mode == mode_) return;
  if (mode != ListenMode::kAwake) ++epoch_;
  mode_ = mode;
  page_->sleep.store(epoch_ << 2 | static_cast<std::uint64_t>(mode), std::memory_order_seq_cst);
}

void Doorbell::publish_cpu() noexcept {
  if (const int cpu = current_cpu(); cpu != cpu_) {
    cpu_ = cpu;
    page_->cpu.store(cpu, std::memory_order_relaxed);
  }
}

void Doorbell::listen_sleep(std::uint32_t seen, std::chrono::steady_clock::time_point deadline) noexcept {
  futex_wait(page_->events, seen, deadline, FutexScope::kShared);
}

void Doorbell::listen_collect(SlotSet& into, std::uint32_t keep) noexcept {
  const std::uint32_t keep_word = keep == kNoSlot ? kNoSlot : keep / 64;
  const std::uint64_t keep_above = keep == kNoSlot ? 0 : bit_of(keep_word);
  auto take = [&](std::uint32_t index) {
    const std::uint64_t stays = index == keep_word ? bit_of(keep) : 0;
    auto& word = page_->words[index];
    if ((word.load(std::memory_order_seq_cst) & ~stays) == 0) return;
    into.add_word(index, word.fetch_and(stays, std::memory_order_seq_cst) & ~stays);
  };
  std::uint64_t summary = page_->summary.load(std::memory_order_seq_cst);
  if (summary & ~keep_above) summary = page_->summary.fetch_and(keep_above, std::memory_order_seq_cst);
  for (; summary != 0; summary &= summary - 1) take(static_cast<std::uint32_t>(std::countr_zero(summary)));
}

bool Doorbell::listen_any(std::uint32_t keep) const noexcept {
  const std::uint64_t summary = page_->summary.load(std::memory_order_seq_cst);
  if (keep == kNoSlot) return summary != 0;
  if (summary & ~bit_of(keep / 64)) return true;
  return (page_->words[keep / 64].load(std::memory_order_seq_cst) & ~bit_of(keep)) != 0;
}

void Doorbell::listen_set(std::uint32_t slot) noexcept { set_ready(*page_, slot); }

void Doorbell::listen_clear(std::uint32_t slot) noexcept {
  page_->words[slot / 64].fetch_and(~bit_of(slot), std::memory_order_seq_cst);
}

void Doorbell::wake_sleeper() noexcept { wake_events(*page_); }
void Doorbell::call_service() noexcept { write_event(event_.get()); }

bool Doorbell::unheld() const noexcept {
  return static_cast<ListenMode>(page_->sleep.load(std::memory_order_seq_cst) & 3) == ListenMode::kUnheld;
}

void Doorbell::ring_self(std::uint32_t slot) noexcept {
  set_ready(*page_, slot);
  switch (static_cast<ListenMode>(page_->sleep.load(std::memory_order_seq_cst) & 3)) {
    case ListenMode::kAwake: break;
    case ListenMode::kAsleep: wake_sleeper(); break;
    case ListenMode::kUnheld: call_service(); break;
  }
}

}  // namespace troupe::net

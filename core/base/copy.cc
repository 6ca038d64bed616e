// Large copies, into memory that another core or process will read.
//
// Measured on a two-core Sapphire Rapids guest, GB/s, source and destination not in cache / both in cache:
//
//                       512 KiB       1 MiB      2 MiB     16 MiB    800 MiB
//   glibc memcpy         6 / 42      7 / 24     7 / 15     7 / 15    11.7
//   rep movsb            6 / 43      7 / 25     7 / 16     7 / 15     7.1
//   streaming, 8 pages  14 / 22     14 / 21    14 / 17    14 / 13    12.7
//   the same, 2 threads                                              23.8
//
// So kLargeCopy is 1 MiB: from there on a cold copy gains far more than a hot one loses. Streaming stores save the read
// of the destination; going through several pages at once keeps several DRAM rows and page walks under way. Other hosts
// of the same CPU model gave rep movsb 21 GB/s: which method wins is therefore measured, on the first large copy, while
// it copies. One core cannot use the memory by itself, so very large copies take a second thread for as long as they
// last.
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>

#include "core/base/thread.h"
#include <troupe/detail/serialize_archive.h>

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TROUPE_COPY_X86 1
#include <immintrin.h>
#else
#define TROUPE_COPY_X86 0  // a sanitizer must see every access
#endif

namespace troupe::detail {
namespace {

using CopyFunction = void (*)(std::byte*, const std::byte*, std::size_t);

constexpr std::size_t kChunk = 1 << 20;
constexpr std::size_t kShare = 4 * kChunk;      // what one of two threads takes at a time
constexpr std::size_t kMeasured = 16 << 20;    // long enough to try every method on a few chunks
constexpr long kFaultsAllowed = 16;            // stray ones: the measured chunks have 3,072 pages
constexpr std::size_t kParallel = 32 << 20;    // 3 ms: a thread costs 0.05

void copy_plain(std::byte* to, const std::byte* from, std::size_t n) { std::memcpy(to, from, n); }

#if TROUPE_COPY_X86
void copy_string(std::byte* to, const std::byte* from, std::size_t n) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

constexpr std::size_t kPage = 4096;
constexpr std::size_t kGroup = 8 * kPage;  // pages that are copied together, 128 bytes of each in turn

// Whole groups of pages from a page's start on; the ends are copied plainly. `to` and `from` then stand at the groups.
std::size_t copy_ends(std::byte*& to, const std::byte*& from, std::size_t n) {
  const std::size_t head = std::min(n, -reinterpret_cast<std::uintptr_t>(to) & (kPage - 1));
  std::memcpy(to, from, head);
  to += head, from += head, n -= head;
  const std::size_t whole = n / kGroup * kGroup;
  std::memcpy(to + whole, from + whole, n - whole);
  return whole;
}

// Streaming stores are weakly ordered, and whoever publishes the memory expects plain ones: hence the fences.

__attribute__((target("avx512f"))) void copy_avx512(std::byte* to, const std::byte* from, std::size_t n) {
  const std::byte* end = to + copy_ends(to, from, n);
  for (; to < end; to += kGroup, from += kGroup) {
    for (std::size_t line = 0; line < kPage; line += 128) {
      for (std::size_t at = line; at < kGroup; at += kPage) {
        const __m512i a = _mm512_loadu_si512(from + at), b = _mm512_loadu_si512(from + at + 64);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), a);
        _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + 64), b);
      }
    }
  }
  _mm_sfence();
}

__attribute__((target("avx2"))) void copy_avx2(std::byte* to, const std::byte* from, std::size_t n) {
  const std::byte* end = to + copy_ends(to, from, n);
  for (; to < end; to += kGroup, from += kGroup) {
    for (std::size_t line = 0; line < kPage; line += 128) {
      for (std::size_t page = line; page < kGroup; page += kPage) {
        for (std::size_t at = page; at < page + 128; at += 32) {
          const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + at));
          _mm256_stream_si256(reinterpret_cast<__m256i*>(to + at), a);
        }
      }
    }
  }
  _mm_sfence();
}
#endif

struct Methods {
  std::array<CopyFunction, 3> all{};
  int count = 0;
};

// Those that this processor has, the likely best first.
Methods methods() {
  Methods m;
#if TROUPE_COPY_X86
  if (__builtin_cpu_supports("avx512f")) m.all[m.count++] = &copy_avx512;
  else if (__builtin_cpu_supports("avx2")) m.all[m.count++] = &copy_avx2;
  m.all[m.count++] = &copy_string;
#endif
  m.all[m.count++] = &copy_plain;
  return m;
}

// The method for this machine, once it is known. A cache of a fact, shared by all threads; racing writers agree or
// nearly so.
constinit std::atomic<CopyFunction> best_method{nullptr};

CopyFunction usual_method() {
  const CopyFunction known = best_method.load(std::memory_order_relaxed);
  return known ? known : methods().all[0];
}

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

// Copies a few chunks by each method in turn and keeps the fastest, unless there were page faults: then it is the
// kernel that was measured, and a later copy decides. Returns the bytes done.
std::size_t copy_and_measure(std::byte* to, const std::byte* from) {
  using Clock = std::chrono::steady_clock;
  const Methods m = methods();
  std::array<double, 3> seconds{1e9, 1e9, 1e9};
  const long faults = page_faults();
  std::size_t done = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < m.count; ++i, done += kChunk) {
      const Clock::time_point start = Clock::now();
      m.all[i](to + done, from + done, kChunk);
      seconds[i] = std::min(seconds[i], std::chrono::duration<double>(Clock::now() - start).count());
    }
  }
  const auto fastest = std::min_element(seconds.begin(), seconds.begin() + m.count);
  if (page_faults() - faults < kFaultsAllowed)
    best_method.store(m.all[fastest - seconds.begin()], std::memory_order_relaxed);
  return done;
}

bool several_cores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 1;
}

// Two threads take chunks until none is left: one that gets no core delays the other by a chunk at most.
void copy_by_two(std::byte* to, const std::byte* from, std::size_t n) {
  std::atomic<std::size_t> next{0};
  const CopyFunction copy = usual_method();
  const auto work = [&next, to, from, n, copy] {
    for (std::size_t at; (at = next.fetch_add(kShare, std::memory_order_relaxed)) < n;) {
      copy(to + at, from + at, std::min(kShare, n - at));
    }
  };
  std::thread second;
  try {
    second = start_thread(work);
  } catch (const std::system_error&) {
    // No thread to be had: this one does it all.
  }
  work();
  if (second.joinable()) second.join();
}

}  // namespace

void copy_large(void* to, const void* from, std::size_t n) noexcept {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  if (n >= kMeasured && best_method.load(std::memory_order_relaxed) == nullptr) {
    const std::size_t done = copy_and_measure(target, source);
    target += done, source += done, n -= done;
  }
  if (n >= kParallel && several_cores()) copy_by_two(target, source, n);
  else usual_method()(target, source, n);
}

}  // namespace troupe::detail

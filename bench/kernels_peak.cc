#include "bench/kernels_peak.h"

#include <chrono>
#include <cstddef>

#include "kernels/isa.h"

namespace troupe::bench {
namespace {

constexpr std::size_t kRounds = 20'000;

// Twelve chains hide the latency of a multiply-add on every processor with these instructions. The registers are touched by
// an empty assembler statement each round: the compiler can neither fold nor drop them.
#define TROUPE_PEAK_BODY(type, lanes)                                                                             \
  type a[12], m, x;                                                                                              \
  for (std::size_t l = 0; l < lanes; ++l) m[l] = 0.999f, x[l] = 0.001f;                                          \
  for (auto& r : a) r = x;                                                                                       \
  for (std::size_t i = 0; i < kRounds; ++i) {                                                                    \
    _Pragma("GCC unroll 12") for (int r = 0; r < 12; ++r) a[r] = a[r] * m + x;                                   \
    asm volatile("" : "+v"(a[0]), "+v"(a[1]), "+v"(a[2]), "+v"(a[3]), "+v"(a[4]), "+v"(a[5]));                    \
    asm volatile("" : "+v"(a[6]), "+v"(a[7]), "+v"(a[8]), "+v"(a[9]), "+v"(a[10]), "+v"(a[11]));                  \
  }                                                                                                              \
  return 2.0 * 12 * lanes * kRounds

#if defined(__x86_64__)
typedef float Wide8 __attribute__((vector_size(32)));
typedef float Wide16 __attribute__((vector_size(64)));
__attribute__((target("avx2,fma"), optimize("O3"), noinline)) double rounds_avx2() { TROUPE_PEAK_BODY(Wide8, 8); }
__attribute__((target("avx512f,fma,prefer-vector-width=512"), optimize("O3"), noinline)) double rounds_avx512() {
  TROUPE_PEAK_BODY(Wide16, 16);
}
#endif

double rounds_plain() {
  float a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  volatile float m = 0.999f, x = 0.001f;
  const float factor = m, term = x;
  for (std::size_t i = 0; i < kRounds; ++i) {
    for (float& r : a) r = r * factor + term;
  }
  volatile float sink = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
  static_cast<void>(sink);
  return 2.0 * 8 * kRounds;
}

}  // namespace

double multiply_add_peak(double seconds) {
  using Clock = std::chrono::steady_clock;
  double (*rounds)() = &rounds_plain;
#if defined(__x86_64__)
  if (kernels::best_isa() == kernels::Isa::kAvx512) rounds = &rounds_avx512;
  else if (kernels::best_isa() == kernels::Isa::kAvx2) rounds = &rounds_avx2;
#endif
  rounds();
  double best = 0;
  const auto start = Clock::now();
  do {
    const auto before = Clock::now();
    const double done = rounds();
    const double rate = done / std::chrono::duration<double>(Clock::now() - before).count();
    best = rate > best ? rate : best;
  } while (std::chrono::duration<double>(Clock::now() - start).count() < seconds);
  return best;
}

}  // namespace troupe::bench

#include "bench/kernels_peak.h"

#include <chrono>
#include <cstddef>

#include "kernels/cpu/isa/isa.h"

namespace troupe::bench {
namespace {

constexpr std::size_t kRounds = 20'000;

// Twelve chains hide the latency of a multiply-add on every processor with these instructions. The empty assembler
// statement claims to change all of them each round: the compiler can neither fold nor drop them, and keeps them in
// registers.
#define TROUPE_PEAK_BODY(type, lanes)                                                                             \
  type m, x, a, b, c, d, e, f, g, h, i, j, k, l;                                                                 \
  for (int lane = 0; lane < lanes; ++lane) m[lane] = 0.999f, x[lane] = 0.001f;                                   \
  a = b = c = d = e = f = g = h = i = j = k = l = x;                                                             \
  for (std::size_t round = 0; round < kRounds; ++round) {                                                        \
    a = a * m + x, b = b * m + x, c = c * m + x, d = d * m + x, e = e * m + x, f = f * m + x;                     \
    g = g * m + x, h = h * m + x, i = i * m + x, j = j * m + x, k = k * m + x, l = l * m + x;                     \
    asm volatile(""                                                                                              \
                 : "+v"(a), "+v"(b), "+v"(c), "+v"(d), "+v"(e), "+v"(f), "+v"(g), "+v"(h), "+v"(i), "+v"(j),      \
                   "+v"(k), "+v"(l));                                                                            \
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

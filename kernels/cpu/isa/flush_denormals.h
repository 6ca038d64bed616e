// FlushDenormals: while it lives, this thread's float arithmetic takes denormal numbers (below 1.2e-38 in float32) for
// zero, in operands and results; afterwards as before.
//
// For loops whose values decay towards zero: there they end as denormals and stay, and arithmetic on them is slow (an
// Adam step on moments of units that get no gradient took 2.4 times as long). On processors other than x86-64 it does
// nothing. A scope; not across a fiber's switch.
#pragma once

#include <atomic>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::kernels {

class FlushDenormals {
 public:
#if defined(__x86_64__)
  FlushDenormals() : before_(_mm_getcsr()) { set(before_ | kFlushResults | kZeroOperands); }
  ~FlushDenormals() { set(before_); }
#else
  FlushDenormals() = default;
#endif
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kFlushResults = 0x8000, kZeroOperands = 0x0040;  // of MXCSR

  static void set(unsigned state) {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // loads and stores stay on their side
    _mm_setcsr(state);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  unsigned before_;
#endif
};

}  // namespace troupe::kernels

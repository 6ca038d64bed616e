// ShortSpin: looks for what another process is about to say, for some microseconds, before its thread sleeps for it.
//
// Whoever sleeps leaves its CPU idle, and an idle CPU of a virtual machine takes 15 to 22 us to wake (a pipe's round
// trip between two of them 45 us, within one 5 us): longer than a CartPole takes for four steps. So both sides of
// host_memory.h yield for about as long as a wake-up takes, and sleep then. It yields and does not burn: with fewer
// CPUs than processes, the one that is waited for runs meanwhile.
//
// gym_host.py has the same rule. One thread at a time.
//
// SSP-1  After a wait that was longer, the next ones sleep at once: one, then three, then seven, ..., 63 at most; a
//        wait that was short ends that. So who waits for slow environments loses nothing.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace rl {

class ShortSpin {
 public:
  /// 50 us at most; less when the waits before were long.
  template <class There>
  void until(const There& there) {
    if (skip_ > 0) {
      --skip_;
      return;
    }
    for (const auto end = std::chrono::steady_clock::now() + kMost; !there();) {
      if (std::chrono::steady_clock::now() >= end) {
        missed_ = std::min(2 * missed_ + 1, kSkipMost);
        skip_ = missed_;
        return;
      }
      ::sched_yield();
    }
    missed_ = 0;
  }

 private:
  static constexpr std::chrono::microseconds kMost{50};
  static constexpr int kSkipMost = 63;
  int skip_ = 0, missed_ = 0;
};

}  // namespace rl

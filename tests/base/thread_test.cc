#include "core/base/thread.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

/// The signals of 1 to 64 that the calling thread blocks; SIGKILL, SIGSTOP and what the C library keeps for itself
/// cannot be.
std::vector<int> blocked_here() {
  sigset_t mask;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::vector<int> blocked;
  for (int s = 1; s <= SIGRTMAX; ++s)
    if (::sigismember(&mask, s) == 1) blocked.push_back(s);
  return blocked;
}

std::vector<int> all_but_the_unblockable() {
  std::vector<int> all;
  for (int s = 1; s <= SIGRTMAX; ++s)
    if (s != SIGKILL && s != SIGSTOP && (s < 32 || s >= SIGRTMIN)) all.push_back(s);
  return all;
}

/// Makes the mask of the calling thread one of these signals alone for its life.
class Blocking {
 public:
  explicit Blocking(const std::vector<int>& signals) {
    sigset_t mask;
    ::sigemptyset(&mask);
    for (const int s : signals) ::sigaddset(&mask, s);
    ::pthread_sigmask(SIG_SETMASK, &mask, &before_);
  }
  ~Blocking() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

TEST(StartThread, TakesNoSignalAndLeavesTheCallersMask) {  // TH-1, TH-2
  const Blocking own({SIGUSR1});
  std::vector<int> inside;
  std::thread thread = start_thread([&] { inside = blocked_here(); });
  EXPECT_EQ(blocked_here(), std::vector<int>{SIGUSR1});
  thread.join();
  EXPECT_EQ(inside, all_but_the_unblockable());
}

TEST(StartThread, LeavesTheCallersMaskWhenThereIsNoThread) {  // TH-2
  struct Work {
    Work() = default;
    Work(const Work&) { throw std::runtime_error("as a thread that cannot be had"); }
    void operator()() const {}
  } work;
  const Blocking own({SIGUSR1});
  EXPECT_THROW(start_thread(work), std::runtime_error);
  EXPECT_EQ(blocked_here(), std::vector<int>{SIGUSR1});
}

TEST(SignalsBlocked, IsAScope) {
  const Blocking own({});
  {
    const SignalsBlocked outer;
    { const SignalsBlocked inner; }
    EXPECT_EQ(blocked_here(), all_but_the_unblockable());
  }
  EXPECT_EQ(blocked_here(), std::vector<int>{});
}

thread_local int handled = 0;

TEST(SignalsBlocked, PutsOffAHandlerToItsEnd) {
  const Blocking own({});
  struct sigaction action {}, before {};
  action.sa_handler = [](int) { ++handled; };
  ::sigaction(SIGUSR1, &action, &before);
  handled = 0;
  {
    const SignalsBlocked blocked;
    ::pthread_kill(::pthread_self(), SIGUSR1);
    EXPECT_EQ(handled, 0);
  }
  EXPECT_EQ(handled, 1);
  ::sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace troupe

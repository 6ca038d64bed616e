// NEP-2, NRO-2, NRO-3, NIN-2 and NIN-3 where they are narrowest: each test aims many short rounds at one moment. A lost
// wake-up hangs its round until the deadline, for nothing else happens that would cure it.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>

#include "tests/net/net_fixture.h"

namespace troupe::net::testing {
namespace {

constexpr ProcessId kA{1, 1}, kB{1, 2};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kScale = 1;
#else
constexpr int kScale = 4;
#endif

/// A second thread that does something once a round, begun at (almost) the same moment as the caller goes on.
class Partner {
 public:
  explicit Partner(std::function<void(std::uint64_t)> what)
      : thread_([this, what = std::move(what)] {
          for (std::uint64_t seen = 0;;) {
            std::uint64_t now;
            while ((now = begun_.load()) == seen) std::this_thread::yield();
            if (now == kStop) return;
            what(seen = now);
            done_ = now;
          }
        }) {}
  ~Partner() {
    begun_ = kStop;
    thread_.join();
  }
  void begin(std::uint64_t round) { begun_ = round; }
  void signal(int number) { ASSERT_EQ(::pthread_kill(thread_.native_handle(), number), 0); }
  void wait(std::uint64_t round) {
    while (done_.load() != round) std::this_thread::yield();
  }

 private:
  static constexpr std::uint64_t kStop = ~std::uint64_t{0};
  std::atomic<std::uint64_t> begun_{0}, done_{0};
  std::thread thread_;
};

void linger(std::uint64_t steps) {
  for (; steps > 0; --steps) std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// Waits for a count; false after a long time.
bool reaches(const std::atomic<std::uint64_t>& count, std::uint64_t target) {
  for (const Deadline end = in(kPatience); count.load() != target; std::this_thread::yield()) {
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// NRO-2: one queues for the role at the moment at which the other lets go of it.
TEST(Races, AWaiterIsNotLeftBehindByALeaver) {
  auto a = make_endpoint(kA, 0ns), b = make_endpoint(kB);
  join(*a, *b);
  Parker second(*a), never(*a);
  Calls none, at_a;
  at_a.message = [&](ProcessId, const FrameHeader&, ByteView) { second.notify(); };
  Partner leaver([&](std::uint64_t) { a->block(never, in(0ns), at_a); });
  std::atomic<std::uint64_t> waiting{0};
  Partner sender([&](std::uint64_t round) {
    leaver.wait(round);
    while (waiting.load() != round) std::this_thread::yield();
    b->send(kA, {});
  });
  for (Rounds rounds(2500 * kScale); rounds.next();) {
    const std::uint64_t round = *rounds;
    leaver.begin(round);
    sender.begin(round);
    linger(round * 7 % 6000);
    waiting = round;
    ASSERT_TRUE(a->block(second, in(kPatience), at_a)) << "round " << round;
    sender.wait(round);
  }
}

/// An endpoint whose service thread has next to no patience, and a peer of it; counts what the peer has sent.
struct LeftAlone {
  LeftAlone() {
    join(*a, *b);
    calls.message = [this](ProcessId, const FrameHeader&, ByteView) { ++got; };
    service.emplace(*a, calls);
  }
  void pass_by() { a->try_drain(calls, 10), a->block(never, in(0ns), calls); }

  std::unique_ptr<Endpoint> a = make_endpoint(kA, 0ns, 1us), b = make_endpoint(kB);
  std::atomic<std::uint64_t> got{0};
  Calls calls;
  Parker never{*a};
  std::optional<ServiceThread> service;
};

// NRO-3, NEP-2: a message comes at the moment at which the last holder goes; nobody comes after it but the service
// thread.
TEST(Races, AMessageThatMeetsALeaverIsServed) {
  LeftAlone at;
  Partner leaver([&](std::uint64_t) { at.pass_by(); });
  for (Rounds rounds(2500 * kScale); rounds.next();) {
    const std::uint64_t round = *rounds;
    leaver.begin(round);
    linger(round * 13 % 8000);
    at.b->send(kA, {});
    leaver.wait(round);
    ASSERT_TRUE(reaches(at.got, round)) << "round " << round;
  }
}

/// While it lives SIGUSR1 makes a thread stand still wherever it is, until it is let go.
class StandStill {
 public:
  StandStill() {
    struct sigaction action {};
    action.sa_handler = [](int) {
      stands_ = true;
      while (!go_.load()) ::sched_yield();
    };
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
  }
  ~StandStill() { EXPECT_EQ(::sigaction(SIGUSR1, &before_, nullptr), 0); }
  void reset() { stands_ = go_ = false; }
  bool stands() const { return stands_.load(); }
  void let_go() { go_ = true; }

 private:
  static inline std::atomic<bool> stands_{false}, go_{false};
  struct sigaction before_ {};
};

// NRO-3, NEP-2: the kernel may take a thread off its core between any two instructions, and long enough for the service
// thread to be rung, to attend and to find that the role has not moved.
TEST(Races, WhoStandsStillAsItLeavesLosesNoMessage) {
  LeftAlone at;
  StandStill still;
  Partner leaver([&](std::uint64_t) {
    do at.pass_by();
    while (!still.stands());
  });
  for (Rounds rounds(1000 * kScale); rounds.next();) {
    const std::uint64_t round = *rounds;
    still.reset();
    leaver.begin(round);
    linger(round * 13 % 8000);
    leaver.signal(SIGUSR1);
    while (!still.stands()) std::this_thread::yield();
    at.b->send(kA, {});
    for (const Deadline end = in(200us); std::chrono::steady_clock::now() < end;) std::this_thread::yield();
    still.let_go();
    leaver.wait(round);
    ASSERT_TRUE(reaches(at.got, round)) << "round " << round;
  }
}

// The reader makes room, and says so, just when the writer has found the ring full and not yet queued its message.
TEST(Races, AMessageQueuedWhileRoomIsMadeIsFlushed) {
  auto a = make_endpoint(kA, 30us, 0ns), b = make_endpoint(kB);
  join(*a, *b, 16 * 1024);
  std::atomic<std::uint64_t> got{0};
  Calls at_a, at_b;
  at_b.message = [&](ProcessId, const FrameHeader&, ByteView) { ++got; };
  ServiceThread flusher(*a, at_a);
  Parker stop(*b);
  std::thread reader([&] { b->block(stop, in(10 * kPatience), at_b); });
  const std::string payload = pattern(900, 1);
  std::uint64_t sent = 0;
  for (Rounds rounds(1500 * kScale); rounds.next();) {
    const std::uint64_t round = *rounds;
    for (std::uint64_t n = 20 + round % 7; n > 0; --n, ++sent) a->send(kB, {}, bytes_of(payload));
    EXPECT_TRUE(reaches(got, sent)) << "round " << round;
    if (HasFailure()) break;
  }
  stop.notify();
  reader.join();
}

// NIN-2: the hot peer writes at the moment at which another becomes hot.
TEST(Races, AMessageOfThePeerThatWasHotIsSeen) {
  auto hub = make_endpoint({1, 0}), a = make_endpoint(kA), b = make_endpoint(kB);
  join(*a, *hub);
  join(*b, *hub);
  std::atomic<std::uint64_t> got{0};
  Calls at_hub;
  at_hub.message = [&](ProcessId, const FrameHeader&, ByteView) { ++got; };
  Parker stop(*hub);
  std::thread reader([&] { hub->block(stop, in(10 * kPatience), at_hub); });
  std::uint64_t sent = 0;
  for (Rounds rounds(2500 * kScale); rounds.next();) {
    const std::uint64_t round = *rounds;
    Endpoint& was_hot = round % 2 ? *a : *b;
    Endpoint& other = round % 2 ? *b : *a;
    const std::uint64_t when = round % 24;
    for (std::uint64_t n = 0; n < 24; ++n, ++sent) {
      linger(round * 31 % 400);
      (n == when ? was_hot : other).send({1, 0}, {});
    }
    EXPECT_TRUE(reaches(got, sent)) << "round " << round;
    if (HasFailure()) break;
  }
  stop.notify();
  reader.join();
}

}  // namespace
}  // namespace troupe::net::testing

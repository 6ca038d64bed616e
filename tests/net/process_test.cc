// The same promises between real processes, and NEP-5: what a process published before it was killed is delivered.
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <random>

#include "tests/net/net_fixture.h"

namespace troupe::net::testing {
namespace {

constexpr ProcessId kParent{1, 1}, kChild{1, 2};

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kScale = 1;
#else
constexpr int kScale = 4;
#endif

/// Numbers that both processes see.
struct Shared {
  std::atomic<std::uint64_t> published{0}, begun{0}, ready{0};
  static Shared* make() {
    void* at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (at) Shared;
  }
};

/// Parent and child joined by a pair, both descriptors made before the fork.
class TwoProcesses : public ::testing::Test {
 protected:
  void start(std::chrono::nanoseconds spin, const std::function<void(Endpoint&)>& child_main,
             std::size_t ring_bytes = 32 * 1024) {
    parent = make_endpoint(kParent, spin);
    auto child = make_endpoint(kChild, spin);
    UniqueFd pair = make_pair_fd(ring_bytes);
    pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      child->attach(attachment(*parent, pair.get(), 1)).value();
      child_main(*child);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    parent->attach(attachment(*child, pair.get(), 0)).value();
  }
  int wait_child() {
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    pid = -1;
    return status;
  }
  void TearDown() override {
    if (pid > 0) {
      ::kill(pid, SIGKILL);
      wait_child();
    }
    ::munmap(shared, 4096);
  }

  Shared* shared = Shared::make();
  std::unique_ptr<Endpoint> parent;
  pid_t pid = -1;
};

// Both sides sleep, spin and wake at random moments. A lost wake-up makes block() run into its deadline.
TEST_F(TwoProcesses, NoWakeUpIsLostBetweenProcesses) {
  constexpr std::uint8_t kLast = 1;
  start(2us, [&](Endpoint& end) {
    Parker parker(end);
    Calls echo;
    std::mt19937 random(1);
    echo.message = [&](ProcessId from, const FrameHeader& header, ByteView payload) {
      for (const Deadline until = in(std::chrono::nanoseconds(random() % 6000));
           std::chrono::steady_clock::now() < until;) {}
      end.send(from, header, payload);
      if (header.kind == kLast) parker.notify();
    };
    EXPECT_TRUE(end.block(parker, in(5 * kPatience), echo));
  });
  Parker parker(*parent);
  Calls answers;
  std::uint64_t answered = 0;
  answers.message = [&](ProcessId, const FrameHeader& header, ByteView) {
    EXPECT_EQ(header.token, answered + 1);
    answered = header.token;
    parker.notify();
  };
  std::mt19937 random(2);
  std::uint64_t n = 0;
  for (Rounds rounds(10000 * kScale); rounds.next();) {
    n = *rounds;
    for (const Deadline until = in(std::chrono::nanoseconds(random() % 6000));
         std::chrono::steady_clock::now() < until;) {}
    if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 30));
    ASSERT_TRUE(parent->send(kChild, {.token = n}));
    ASSERT_TRUE(parent->block(parker, in(kPatience), answers)) << "call " << n;
  }
  // Without a wake-up nothing is proved; on a busy machine it may not have come to one yet.
  for (const Deadline end = in(kPatience); parent->stats().futex_rings == 0;) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    std::this_thread::sleep_for(2ms);
    ASSERT_TRUE(parent->send(kChild, {.token = ++n}));
    ASSERT_TRUE(parent->block(parker, in(kPatience), answers));
  }
  ASSERT_TRUE(parent->send(kChild, {.kind = kLast, .token = n + 1}));
  EXPECT_EQ(wait_child(), 0);
}

// The parent never blocks in the endpoint: only its service thread can bring the answers.
TEST_F(TwoProcesses, TheServiceThreadAnswersWhileUserCodeComputes) {
  start(30us, [&](Endpoint& end) {
    Parker parker(end);
    Calls asker;
    std::uint64_t answered = 0;
    asker.message = [&](ProcessId, const FrameHeader& header, ByteView) { answered = header.token, parker.notify(); };
    for (std::uint64_t n = 1; n <= 300; ++n) {
      end.send(kParent, {.token = n});
      EXPECT_TRUE(end.block(parker, in(kPatience), asker)) << n;
      EXPECT_EQ(answered, n);
    }
  });
  Calls echo;
  echo.message = [&](ProcessId from, const FrameHeader& header, ByteView payload) {
    parent->send(from, header, payload);
  };
  ServiceThread service(*parent, echo);
  EXPECT_EQ(wait_child(), 0);
  EXPECT_GE(parent->stats().service_drains, 1u);
}

TEST_F(TwoProcesses, ASenderKilledMidStreamLosesNothingThatItPublished) {
  for (Rounds rounds(10 * kScale); rounds.next();) {
    const std::uint64_t round = *rounds;
    shared->published = shared->begun = 0;
    start(5us, [&](Endpoint& end) {
      Calls calls;
      Parker never(end);
      calls.message = [&](ProcessId from, const FrameHeader& header, ByteView) {
        shared->begun = header.token;  // before: so it is at least what is in the ring's header
        end.set_begun(from, header.token);
      };
      for (std::uint64_t n = 1;; ++n) {
        const std::string payload = pattern(n % 50 == 0 ? 20000 : n % 300, n);
        end.send(kParent, {.token = n}, bytes_of(payload));
        while (end.backlog(kParent) > 0) end.block(never, in(1ms), calls);
        shared->published = n;
        if (n % 8 == 0) end.try_drain(calls, 4);
      }
    });
    Calls receiver;
    std::uint64_t received = 0;
    receiver.message = [&](ProcessId, const FrameHeader& header, ByteView payload) {
      ASSERT_EQ(header.token, ++received);
      ASSERT_TRUE(text_of(payload) == pattern(received % 50 == 0 ? 20000 : received % 300, received)) << received;
    };
    std::mt19937 random(static_cast<unsigned>(round));
    std::uint64_t calls = 0;
    const std::uint64_t enough = random() % 3000;
    pump(*parent, receiver, [&] {
      parent->send(kChild, {.token = ++calls});
      return received >= enough;
    });
    ::kill(pid, SIGKILL);
    wait_child();
    const std::uint64_t begun = parent->begun(kChild);
    EXPECT_LE(begun, shared->begun.load());
    EXPECT_GE(begun + 1, shared->begun.load());
    EXPECT_LE(begun, calls);
    parent->drain_and_close(kChild, receiver);
    EXPECT_GE(received, shared->published.load()) << "round " << round;
    EXPECT_FALSE(parent->attached(kChild));
    EXPECT_EQ(parent->begun(kChild), 0u);
    if (HasFailure()) return;
  }
}

TEST_F(TwoProcesses, AReaderThatDiesDoesNotHoldUpItsSender) {
  start(5us, [&](Endpoint&) {
    shared->ready = 1;
    for (;;) ::pause();  // reads nothing
  });
  while (shared->ready == 0) std::this_thread::yield();
  const std::string payload = pattern(1000, 1);
  for (int n = 0; n < 100; ++n) ASSERT_TRUE(parent->send(kChild, {}, bytes_of(payload)));
  EXPECT_GT(parent->backlog(kChild), 50000u);
  ::kill(pid, SIGKILL);
  wait_child();
  for (int n = 0; n < 100; ++n)
    ASSERT_TRUE(parent->send(kChild, {}, bytes_of(payload))) << "attached until the caller detaches";
  Calls none;
  parent->drain_and_close(kChild, none);
  EXPECT_FALSE(parent->send(kChild, {}));
  EXPECT_EQ(parent->backlog(kChild), 0u);
}

// What the daemon does after a death: the dead may have published to a third process without ringing it.
TEST_F(TwoProcesses, RingAlwaysEndsASleep) {
  start(0ns, [&](Endpoint& end) {
    Parker parker(end);
    Calls none;
    shared->ready = 1;
    end.block(parker, in(kPatience), none);
  });
  while (shared->ready == 0) std::this_thread::yield();
  // It sleeps sooner or later; each ring ends one sleep and is no harm when there was none.
  for (int n = 0; n < 50; ++n) {
    parent->ring_always(kChild);
    std::this_thread::sleep_for(100us);
  }
  parent->ring_always({9, 9});
}

TEST_F(TwoProcesses, LargeMessagesBothWaysAtOnce) {
  constexpr std::size_t kSize = 1 << 20;
  auto run = [&](Endpoint& end, ProcessId peer, std::uint64_t mine, std::uint64_t theirs) {
    Calls receiver;
    int got = 0;
    receiver.message = [&](ProcessId, const FrameHeader& header, ByteView payload) {
      EXPECT_EQ(header.token, theirs);
      EXPECT_TRUE(text_of(payload) == pattern(kSize, theirs));
      ++got;
    };
    const std::string payload = pattern(kSize, mine);
    for (int n = 0; n < 3; ++n) EXPECT_TRUE(end.send(peer, {.token = mine}, bytes_of(payload)));
    EXPECT_TRUE(pump(end, receiver, [&] { return got == 3 && end.backlog(peer) == 0; }));
  };
  start(20us, [&](Endpoint& end) { run(end, kParent, 1, 2); });
  run(*parent, kChild, 2, 1);
  EXPECT_EQ(wait_child(), 0);
}

}  // namespace
}  // namespace troupe::net::testing

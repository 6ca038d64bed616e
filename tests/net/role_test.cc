// Promises NEP-2, NEP-6 and NRO-1 to NRO-3: whoever waits is woken, whichever thread drains. Threads stand for
// processes here; process_test.cc has the same with real ones.
#include <atomic>
#include <random>

#include "tests/net/net_fixture.h"

namespace troupe::net::testing {
namespace {

constexpr ProcessId kA{1, 1}, kB{1, 2};
constexpr std::size_t kThreadsMax = 64;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kScale = 1;
#else
constexpr int kScale = 4;
#endif

/// Answers each message with itself.
struct Echo : Handler {
  explicit Echo(Endpoint& end) : endpoint(end) {}
  void on_message(ProcessId from, const FrameHeader& header, ByteView payload) override {
    endpoint.send(from, header, payload);
  }
  void on_broken(ProcessId, const ErrorPtr& why) override { ADD_FAILURE() << why->what(); }
  Endpoint& endpoint;
};

/// Notifies the parker whose number is the answer's arg0, after noting the token as its answer.
struct Answers : Handler {
  void on_message(ProcessId, const FrameHeader& header, ByteView) override {
    ASSERT_LT(header.arg0, kThreadsMax);
    answer[header.arg0].store(header.token);
    parker[header.arg0].load()->notify();
  }
  void on_broken(ProcessId, const ErrorPtr& why) override { ADD_FAILURE() << why->what(); }
  std::atomic<Parker*> parker[kThreadsMax] = {};
  std::atomic<std::uint64_t> answer[kThreadsMax] = {};
};

/// A process that does nothing but answer: one thread in block().
class EchoProcess {
 public:
  explicit EchoProcess(ProcessId self, std::chrono::nanoseconds spin = 30us)
      : end(make_endpoint(self, spin)),
        echo_(*end),
        parker_(*end),
        thread_([this] { end->block(parker_, in(10 * kPatience), echo_); }) {}
  ~EchoProcess() {
    parker_.notify();
    thread_.join();
  }
  std::unique_ptr<Endpoint> end;

 private:
  Echo echo_;
  Parker parker_;
  std::thread thread_;
};

/// One call: sends and blocks until the answer with that token came.
void call(Endpoint& end, Answers& answers, Parker& parker, std::uint64_t who, std::uint64_t token) {
  answers.parker[who].store(&parker);
  ASSERT_TRUE(end.send(kB, {.token = token, .arg0 = who}));
  ASSERT_TRUE(end.block(parker, in(kPatience), answers)) << "no answer to call " << token << " of thread " << who;
  ASSERT_EQ(answers.answer[who].load(), token);
}

TEST(Role, BlockReturnsTheFlagAndKeepsTheDeadline) {
  auto end = make_endpoint(kA);
  Calls none;
  Parker parker(*end);
  EXPECT_FALSE(end->block(parker, in(0ns), none));
  EXPECT_FALSE(end->block(parker, in(2ms), none));
  parker.notify();
  parker.notify();
  EXPECT_TRUE(parker.notified());
  EXPECT_TRUE(end->block(parker, in(kPatience), none));
  EXPECT_FALSE(end->block(parker, in(1ms), none)) << "two notifies before it was taken are one";
  parker.notify();
  EXPECT_TRUE(parker.take());
  EXPECT_FALSE(parker.take());
}

TEST(Role, AHolderAsleepIsWokenByAMessageAndByItsParker) {
  EchoProcess b(kB, 0ns);
  auto a = make_endpoint(kA, 0ns);
  join(*a, *b.end);
  Answers answers;
  Parker parker(*a);
  for (std::uint64_t n = 1; n <= 50 || b.end->stats().sleeps == 0; ++n) {
    std::this_thread::sleep_for(500us);  // the echo goes to sleep meanwhile
    call(*a, answers, parker, 0, n);
  }
  std::thread other([&] { parker.notify(); });
  EXPECT_TRUE(a->block(parker, in(kPatience), answers));
  other.join();
}

TEST(Role, SeveralThreadsThatCallAreAllAnswered) {
  EchoProcess b(kB);
  auto a = make_endpoint(kA);
  join(*a, *b.end);
  Answers answers;
  std::atomic<std::uint64_t> number{0};
  auto round = [&] {
    std::vector<std::thread> threads;
    for (std::uint64_t who = 0; who < 6; ++who) {
      threads.emplace_back([&, who] {
        for (Rounds n(500 * kScale); n.next() && !::testing::Test::HasFatalFailure();) {
          Parker parker(*a);  // a new one each time: notify may still run when block has returned
          call(*a, answers, parker, who, ++number);
        }
      });
    }
    for (auto& thread : threads) thread.join();
  };
  // Until the role was handed from one to another: without that nothing is proved.
  for (const Deadline end = in(kPatience); a->stats().handovers == 0 && !HasFatalFailure();) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
    round();
  }
}

// One waits in the queue while another holds the role, who then leaves: the first must be woken by a message all the
// same.
TEST(Role, AWaiterTakesOverFromAHolderThatLeaves) {
  for (Rounds rounds(200 * kScale); rounds.next();) {
    const std::uint64_t round = *rounds;
    auto a = make_endpoint(kA, 0ns), b = make_endpoint(kB);
    join(*a, *b);
    Parker first(*a), second(*a);
    Calls none, at_a;
    at_a.message = [&](ProcessId, const FrameHeader&, ByteView) { second.notify(); };
    std::thread holder([&] { EXPECT_TRUE(a->block(first, in(kPatience), at_a)); });
    std::thread waiter([&] { EXPECT_TRUE(a->block(second, in(kPatience), at_a)); });
    if (round % 2) std::this_thread::sleep_for(std::chrono::microseconds(round));
    first.notify();
    holder.join();
    b->send(kA, {});
    waiter.join();
  }
}

TEST(Role, ThreadsThatGiveUpDoNotTakeTheRoleWithThem) {
  EchoProcess b(kB);
  auto a = make_endpoint(kA);
  join(*a, *b.end);
  Answers answers;
  std::atomic<bool> stop{false};
  std::vector<std::thread> quitters;
  for (int n = 0; n < 3; ++n) {
    quitters.emplace_back([&, n] {
      std::mt19937 random(n);
      while (!stop) {
        Parker parker(*a);
        a->block(parker, in(std::chrono::microseconds(random() % 300)), answers);
      }
    });
  }
  std::vector<std::thread> callers;
  for (std::uint64_t who = 0; who < 2; ++who) {
    callers.emplace_back([&, who] {
      Parker parker(*a);
      for (Rounds n(500 * kScale); n.next() && !::testing::Test::HasFatalFailure();) call(*a, answers, parker, who, *n);
    });
  }
  for (auto& thread : callers) thread.join();
  stop = true;
  for (auto& thread : quitters) thread.join();
}

// Two processes that call each other's echo with pauses that fall before, into and after the other's decision to sleep.
TEST(Role, NoWakeUpIsLostWhateverTheTiming) {
  auto a = make_endpoint(kA, 3us);
  EchoProcess b(kB, 2us);
  join(*a, *b.end);
  Answers answers;
  Parker parker(*a);
  std::mt19937 random(1);
  for (Rounds rounds(10000 * kScale); rounds.next();) {
    const std::uint64_t n = *rounds;
    for (unsigned spins = random() % 64; spins > 0; --spins) std::atomic_signal_fence(std::memory_order_seq_cst);
    if (random() % 4 == 0) {
      for (const Deadline end = in(std::chrono::nanoseconds(random() % 20000));
           std::chrono::steady_clock::now() < end;) {}
    }
    if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 20));
    call(*a, answers, parker, 0, n);
    if (HasFatalFailure()) return;
  }
  // Without a sleep nothing is proved; on a busy machine it may not have come to one yet.
  for (std::uint64_t n = 1'000'000; b.end->stats().sleeps == 0 && !HasFatalFailure(); ++n) {
    std::this_thread::sleep_for(2ms);
    call(*a, answers, parker, 0, n);
  }
}

TEST(Service, DrainsWhenNobodyHoldsTheRole) {
  auto a = make_endpoint(kA), b = make_endpoint(kB);
  join(*a, *b);
  std::atomic<int> got{0};
  Calls at_b;
  at_b.message = [&](ProcessId, const FrameHeader&, ByteView) { ++got, got.notify_one(); };
  ServiceThread service(*b, at_b);
  for (Rounds rounds(200 * kScale); rounds.next();) {
    const int n = static_cast<int>(*rounds);
    ASSERT_TRUE(a->send(kB, {}));
    for (int seen = got; seen < n; seen = got) got.wait(seen);  // a lost one hangs until ctest's limit
  }
  EXPECT_GT(b->stats().service_drains, 0u);
}

TEST(Service, WithoutGraceDrainsAtOnce) {
  auto a = make_endpoint(kA), b = make_endpoint(kB, 30us, 0ns);
  join(*a, *b);
  Calls at_b;
  int got = 0;
  at_b.message = [&](ProcessId, const FrameHeader&, ByteView) { ++got; };
  for (int n = 0; n < 10; ++n) {
    a->send(kB, {});
    b->service(at_b);
    EXPECT_EQ(got, n + 1);
  }
  EXPECT_EQ(b->stats().attendances, 0u);
}

TEST(Service, LeavesTheRoleToAThreadThatComesBackInTime) {
  auto a = make_endpoint(kA), b = make_endpoint(kB, 30us, 20ms);
  join(*a, *b);
  Calls at_b;
  std::atomic<int> got{0};
  at_b.message = [&](ProcessId, const FrameHeader&, ByteView) { ++got; };
  a->send(kB, {});
  b->service(at_b);  // as when rung: the grace begins
  EXPECT_EQ(got, 0);
  EXPECT_EQ(b->try_drain(at_b, 10), 1);
  b->service(at_b);  // spurious call: the timer has not run out
  EXPECT_EQ(b->stats().service_drains, 0u);
  EXPECT_EQ(a->stats().event_rings, 1u);
  for (int n = 0; n < 10; ++n) {
    a->send(kB, {});
    b->try_drain(at_b, 10);
  }
  EXPECT_EQ(a->stats().event_rings, 1u) << "attended: no ringer writes the eventfd";
  // The timer runs out while threads still come: it attends on. When nobody came any more it drains and goes.
  ServiceThread service(*b, at_b);
  a->send(kB, {});
  EXPECT_TRUE(pump(*a, at_b, [&] { return got == 12; }));
}

// All three kinds of holders at once, while peers come and go.
TEST(Role, BlockersPassersByAndServiceTogetherLoseNothing) {
  auto a = make_endpoint(kA, 5us);
  EchoProcess b(kB, 5us);
  join(*a, *b.end);
  Answers answers;
  Parker unused(*a);
  ServiceThread service(*a, answers);
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads, helpers;
  for (std::uint64_t who = 0; who < 3; ++who) {
    threads.emplace_back([&, who] {
      std::mt19937 random(static_cast<unsigned>(who));
      Parker parker(*a);
      for (Rounds n(1500 * kScale); n.next() && !::testing::Test::HasFatalFailure();) {
        call(*a, answers, parker, who, *n);
        if (random() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 100));
      }
    });
  }
  // Waits only by looking: the service thread must bring its answers.
  threads.emplace_back([&] {
    answers.parker[10].store(&unused);
    for (Rounds rounds(300 * kScale); rounds.next();) {
      const std::uint64_t n = *rounds;
      a->send(kB, {.token = n, .arg0 = 10});
      for (const Deadline end = in(kPatience); answers.answer[10].load() != n;) {
        ASSERT_LT(std::chrono::steady_clock::now(), end) << "answer " << n << " lies in the ring and nobody looks";
        std::this_thread::yield();
      }
      unused.take();
    }
  });
  helpers.emplace_back([&] {
    while (!stop) {
      a->try_drain(answers, 16);
      std::this_thread::yield();
    }
  });
  helpers.emplace_back([&] {
    for (std::uint32_t n = 3; !stop; ++n) {
      const ProcessId id{1, n};
      auto guest = make_endpoint(id);
      join(*a, *guest);
      std::thread asker([&] {
        Parker parker(*guest);
        Calls at_guest;
        for (int k = 0; k < 3; ++k) guest->block(parker, in(50us), at_guest);
      });
      asker.join();
      if (n % 2) a->detach(id);
      else a->drain_and_close(id, answers);
      ASSERT_FALSE(a->attached(id));
    }
  });
  for (auto& thread : threads) thread.join();
  stop = true;
  for (auto& thread : helpers) thread.join();
}

TEST(Role, AnAttachedPeersEarlyMessageWakesASleepingHolder) {
  for (Rounds rounds(50 * kScale); rounds.next();) {
    auto a = make_endpoint(kA), b = make_endpoint(kB, 0ns);
    UniqueFd pair = make_pair_fd();
    a->attach(attachment(*b, pair.get(), 0)).value();
    ASSERT_TRUE(a->send(kB, {}));
    Parker parker(*b);
    Calls at_b;
    at_b.message = [&](ProcessId, const FrameHeader&, ByteView) { parker.notify(); };
    std::thread late([&] { b->attach(attachment(*a, pair.get(), 1)).value(); });
    EXPECT_TRUE(b->block(parker, in(kPatience), at_b));
    late.join();
  }
}

TEST(Role, ABacklogIsFlushedThoughBothSidesSleep) {
  auto a = make_endpoint(kA, 0ns), b = make_endpoint(kB, 0ns);
  join(*a, *b, 16 * 1024);
  constexpr std::uint64_t kMessages = 3000;
  std::uint64_t next = 0;
  std::atomic<bool> full{false};
  std::thread reader([&] {
    full.wait(false);
    Parker done(*b);
    Calls at_b;
    at_b.message = [&](ProcessId, const FrameHeader& header, ByteView) {
      EXPECT_EQ(header.token, next);
      if (++next == kMessages) done.notify();
    };
    EXPECT_TRUE(b->block(done, in(kPatience), at_b)) << "stopped at " << next;
  });
  Calls at_a;
  const std::string payload = pattern(700, 1);
  for (std::uint64_t n = 0; n < kMessages; ++n) {
    ASSERT_TRUE(a->send(kB, {.token = n}, bytes_of(payload)));
    if (n == 200) full = true, full.notify_one();
  }
  EXPECT_TRUE(pump(*a, at_a, [&] { return a->backlog(kB) == 0; }));
  reader.join();
  EXPECT_GT(a->stats().queued, 0u);
}

TEST(Role, ThreadsOfOneProcessSendInTheirOwnOrder) {
  auto a = make_endpoint(kA);
  auto b = make_endpoint(kB);
  join(*a, *b);
  constexpr std::uint64_t kThreads = 4, kEach = 3000;
  std::vector<std::uint64_t> next(kThreads);
  Calls at_a, at_b;
  std::uint64_t total = 0;
  at_b.message = [&](ProcessId, const FrameHeader& header, ByteView) {
    ASSERT_EQ(header.token, next[header.arg0]++);
    ++total;
  };
  ServiceThread flusher(*a, at_a);
  std::vector<std::thread> senders;
  for (std::uint64_t who = 0; who < kThreads; ++who) {
    senders.emplace_back([&, who] {
      for (std::uint64_t n = 0; n < kEach; ++n) ASSERT_TRUE(a->send(kB, {.token = n, .arg0 = who}));
    });
  }
  EXPECT_TRUE(pump(*b, at_b, [&] { return total == kThreads * kEach; })) << total;
  for (auto& sender : senders) sender.join();
}

}  // namespace
}  // namespace troupe::net::testing

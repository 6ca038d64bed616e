// What happens when a rank is killed, frozen, late, or calls something else: a CollectiveError on all others that names
// it.
#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>

#include <atomic>
#include <barrier>
#include <filesystem>
#include <future>
#include <new>

#include "tests/base/few_descriptors.h"
#include "tests/collective/ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;
using std::chrono::milliseconds;

/// A process's exit code that tells how its operation ended: 0 is well.
int code(Reason reason, int missing = -1) { return 10 + int(reason) + 16 * (missing + 1); }  // missing < 14

template <class F> int outcome(F&& operation) {
  try {
    operation();
  } catch (const CollectiveError& error) {
    const auto missing = error.missing_ranks();
    return code(error.reason(), missing.size() == 1 ? missing.front() : -1);
  }
  return 0;
}

void sum(Group& g, std::size_t n) {
  std::vector<float> data(n, 1);
  g.all_reduce(data);
}

// Of a barrier before an operation whose time shall be up: the ranks only gather there, which may take its time.
constexpr OpOptions kGather{.timeout = std::chrono::seconds(60)};

class FaultsTest : public ::testing::TestWithParam<Backend> {
 protected:
  static Backend backend() { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Backends, FaultsTest, ::testing::Values(Backend::kShm, Backend::kTcp, Backend::kHier));

// SG-3, WA-1, TL-1, TL-2: killed before its part, the others hear of it long before the deadline.
TEST_P(FaultsTest, AKilledRankEndsTheOperationOfTheOthersAndIsNamed) {
  Processes ranks({.ranks = 3, .backend = backend()}, [](Group g) {
    return outcome([&] {
      g.barrier();
      if (g.rank() == 1) ::raise(SIGKILL);
      sum(g, 1000);
    });
  });
  const auto start = Clock::now();
  EXPECT_EQ(ranks.wait(1), 100 + SIGKILL);
  for (int r : {0, 2}) EXPECT_EQ(ranks.wait(r), code(Reason::kDied, 1)) << "rank " << r;
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30)) << "the deadline of 60 s was not what ended it";
}

// At any chunk of a large operation, again and again.
TEST_P(FaultsTest, KilledInTheMiddleOfALargeOperation) {
  for (int round = 0; round < 5; ++round) {
    auto* const here =
        new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
    Processes ranks({.ranks = 3, .backend = backend()}, [here](Group g) {
      return outcome([&] {
        g.barrier();
        here->fetch_add(1);
        for (;;) sum(g, 3'000'000);
      });
    });
    while (here->load() < 3 && !ranks.one_has_ended()) ::usleep(1000);  // a machine that is busy may take its time
    ::munmap(here, 4096);
    ::usleep(20'000u + unsigned(round) * 7'000u);
    ::kill(ranks.pid(2), SIGKILL);
    for (int r : {0, 1}) EXPECT_EQ(ranks.wait(r), code(Reason::kDied, 2)) << "rank " << r;
  }
}

TEST_P(FaultsTest, AFrozenRankIsNamedWhenTheTimeIsUp) {
  Processes ranks({.ranks = 3, .timeout = std::chrono::seconds(8), .backend = backend()}, [](Group g) {
    return outcome([&] {
      g.barrier(kGather);
      if (g.rank() == 0) ::raise(SIGSTOP);
      sum(g, 1000);
    });
  });
  for (int r : {1, 2}) EXPECT_EQ(ranks.wait(r), code(Reason::kTimeout, 0)) << "rank " << r;
  ::kill(ranks.pid(0), SIGCONT);
  EXPECT_EQ(ranks.wait(0), code(Reason::kTimeout, 0)) << "it finds the group failed";
}

// At any chunk of a large operation; whoever waits for a rank that waits for the frozen one does not take it for the
// culprit. The limits of all rounds pass at the same time, so that they may be long: a survivor that gets no core for a
// while is in its operation before they are over.
void freeze_in_the_middle(Backend backend, int count, int rounds) {
  const auto frozen_in = [count](int round) { return (1 + round * 5) % count; };
  std::vector<std::unique_ptr<Processes>> groups;
  for (int round = 0; round < rounds; ++round) {
    auto* const here =
        new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
    const Setting setting{.ranks = count, .timeout = std::chrono::seconds(10), .backend = backend};
    groups.push_back(std::make_unique<Processes>(setting, [here](Group g) {
      return outcome([&] {
        g.barrier(kGather);
        here->fetch_add(1);
        for (;;) sum(g, 1'000'000);
      });
    }));
    while (here->load() < count && !groups.back()->one_has_ended()) ::usleep(1000);
    ::munmap(here, 4096);
    ::usleep(20'000u + unsigned(round) * 7'000u);
    ::kill(groups.back()->pid(frozen_in(round)), SIGSTOP);
  }
  for (int round = 0; round < rounds; ++round) {
    Processes& ranks = *groups[std::size_t(round)];
    const int frozen = frozen_in(round);
    for (int r = 0; r < count; ++r)
      if (r != frozen) {
        EXPECT_EQ(ranks.wait(r), code(Reason::kTimeout, frozen)) << "rank " << r << ", round " << round;
      }
    ::kill(ranks.pid(frozen), SIGCONT);
    EXPECT_NE(ranks.wait(frozen), 0) << "it finds the group failed";
  }
}
TEST_P(FaultsTest, FrozenInTheMiddleOfALargeOperation) { freeze_in_the_middle(backend(), 4, 4); }
TEST_P(FaultsTest, FrozenInTheMiddleOfALargeOperationOfMany) { freeze_in_the_middle(backend(), 10, 3); }

// A rank stops when one of the others has what it needs of it and the other one has not: whoever waits for that other
// one does not name it, but the rank that both wait for, also where it has all of that one's data itself. (TCM-3)
TEST(TcpFaults, TCM3_WhoWaitsForTheFrozenRankIsNotNamed) {
  constexpr std::size_t kCount = 30'000, kShare = kCount / 3;
  const auto stops_after = [](std::size_t sent) {
    Founding founding({.ranks = 3, .backend = Backend::kTcp});
    std::vector<std::unique_ptr<Communicator>> ranks;
    for (int r = 0; r < 3; ++r) ranks.push_back(founding.communicator(r));
    std::vector<float> data(kCount, 1), data_of_2(kCount, 1);
    const detail::Operation here = all_reduce_of(data), of_2 = all_reduce_of(data_of_2);
    auto& frozen = dynamic_cast<TcpCommunicator&>(*ranks[1]);
    const std::vector<float> ones(kCount, 1);
    Schedule begun;
    for (std::size_t i = 0; i < sent; ++i)
      begun.steps.push_back(
          {.kind = Step::Kind::kSend, .peer = 0, .range = {Memory::kInput, i * kShare, (i + 1) * kShare}});
    Patience at_once(std::chrono::seconds(10), nullptr), shorter(std::chrono::seconds(8), nullptr),
        longer(std::chrono::seconds(60), nullptr);
    const auto* const bytes = reinterpret_cast<const std::byte*>(ones.data());
    ASSERT_TRUE(frozen.run_moves({frozen.next_number(), signature_of(here)}, begun,
                                 {.input = bytes, .element = sizeof(float)}, at_once));
    std::thread other([&] { EXPECT_FALSE(ranks[2]->run(of_2, longer)); });
    EXPECT_FALSE(ranks[0]->run(here, shorter));
    other.join();
    for (std::size_t r : {0u, 2u}) {
      const auto failure = ranks[r]->failure();
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->reason, Reason::kTimeout);
      EXPECT_EQ(failure->missing_ranks, std::vector<int>{1}) << "rank " << r << ", " << sent << " shares sent";
    }
  };
  // To rank 0: what that one reduces of it; also its own share, reduced. Both at once, so that the limit may be long:
  // rank 2 has to come in it.
  auto one = std::async(std::launch::async, stops_after, 1u), both = std::async(std::launch::async, stops_after, 2u);
  one.get(), both.get();
}

// The same where a rank has all that it needs and is an operation ahead: the one that was left behind waits, and has
// not come for that reason alone. (TCM-3, BL-1)
TEST(TcpFaults, TCM3_WhoIsLeftBehindByTheFrozenRankIsNotNamed) {
  constexpr std::size_t kCount = 30'000, kShare = kCount / 3;
  Founding founding({.ranks = 3, .backend = Backend::kTcp});
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < 3; ++r) ranks.push_back(founding.communicator(r));
  std::vector<float> data(kCount, 1), data_of_2(kCount, 1);
  const detail::Operation here = all_reduce_of(data), of_2 = all_reduce_of(data_of_2);
  auto& frozen = dynamic_cast<TcpCommunicator&>(*ranks[1]);
  const std::vector<float> ones(kCount, 1);
  const auto send = [&](int peer, std::size_t share) {
    return Step{.kind = Step::Kind::kSend,
                .peer = peer,
                .range = {Memory::kInput, share * kShare, (share + 1) * kShare}};
  };
  Patience at_once(std::chrono::seconds(10), nullptr), patient(std::chrono::seconds(60), nullptr),
      longer(std::chrono::seconds(60), nullptr), shorter(std::chrono::seconds(8), nullptr);
  const auto* const bytes = reinterpret_cast<const std::byte*>(ones.data());
  // what rank 0 reduces of it, what rank 2 reduces of it, and its own share, which rank 2 does not get
  const Schedule begun{.steps = {send(0, 0), send(2, 2), send(0, 1)}};
  ASSERT_TRUE(frozen.run_moves({frozen.next_number(), signature_of(here)}, begun,
                               {.input = bytes, .element = sizeof(float)}, at_once));
  std::thread other([&] { EXPECT_FALSE(ranks[2]->run(of_2, longer)); });
  EXPECT_TRUE(ranks[0]->run(here, patient));
  EXPECT_FALSE(ranks[0]->run(here, shorter));
  other.join();
  for (std::size_t r : {0u, 2u}) {
    const auto failure = ranks[r]->failure();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->reason, Reason::kTimeout);
    EXPECT_EQ(failure->missing_ranks, std::vector<int>{1}) << "rank " << r;
  }
}

// A barrier of four, of which rank 1 came, told that it waits for rank 0, and stands still after its first message.
// Ranks 0 and 2 get through; rank 3 waits for the second message of rank 1. Rank 0 is not named: neither where it came
// last, and never waited itself, nor where it waited for rank 3. (BL-1)
TEST(TcpFaults, TCM3_WhoIsThroughIsNotNamed) {
  const auto comes_last = [](int late) {
    Founding founding({.ranks = 4, .backend = Backend::kTcp});
    std::vector<std::unique_ptr<Communicator>> ranks;
    for (int r = 0; r < 4; ++r) ranks.push_back(founding.communicator(r));
    const detail::Operation barrier{.kind = detail::Kind::kBarrier};
    auto& frozen = dynamic_cast<TcpCommunicator&>(*ranks[1]);
    Patience at_once(std::chrono::seconds(10), nullptr);
    std::byte nothing{};
    const Schedule begun{.steps = {{.kind = Step::Kind::kSend, .peer = 2, .range = {Memory::kInput, 0, 0}}}};
    ASSERT_TRUE(frozen.run_moves({frozen.next_number(), signature_of(barrier)}, begun, {.input = &nothing}, at_once));
    frozen.links()->tell_progress({0});
    std::map<int, bool> ended;
    std::vector<std::thread> threads;
    for (int r : {0, 2, 3}) ended[r] = false;
    for (int r : {0, 2, 3})
      threads.emplace_back([&, r] {
        if (r == late) std::this_thread::sleep_for(milliseconds(300));
        Patience patience(r == 3 ? milliseconds(8000) : milliseconds(60'000), nullptr);
        ended.at(r) = ranks[std::size_t(r)]->run(barrier, patience);
      });
    for (auto& thread : threads) thread.join();
    EXPECT_TRUE(ended.at(0) && ended.at(2) && !ended.at(3));
    const auto failure = ranks[3]->failure();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->reason, Reason::kTimeout);
    EXPECT_EQ(failure->missing_ranks, std::vector<int>{1}) << "rank " << late << " came last: " << failure->text;
  };
  // Both at once, so that the limit of rank 3 may be long: the others have to come in it.
  auto one = std::async(std::launch::async, comes_last, 0), other = std::async(std::launch::async, comes_last, 3);
  one.get(), other.get();
}

// Two that stay away are both named, also where one of them waited for the other one before: that is over.
TEST_P(FaultsTest, AllThatStayAwayAreNamedWhoeverWaitedForWhomBefore) {
  std::atomic<int> over = 0;
  on_threads({.ranks = 4, .timeout = std::chrono::seconds(8), .backend = backend()}, [&](Group g) {
    if (g.rank() == 2) std::this_thread::sleep_for(milliseconds(300));
    g.barrier(kGather);  // the others tell that they wait for rank 2
    while (g.rank() >= 2 && over.load() < 2) std::this_thread::sleep_for(milliseconds(1));
    try {
      sum(g, 1000);
      ADD_FAILURE() << "two were missing";
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.reason(), Reason::kTimeout) << error.what();
      EXPECT_EQ(error.missing_ranks(), (std::vector{2, 3})) << error.what();
    }
    ++over;
  });
}

// Every operation, when one rank stays away: the others hear who, and the late one hears that it is over.
TEST_P(FaultsTest, ARankThatNeverEntersIsNamedInEveryOperation) {
  static constexpr std::size_t kN = 300;
  using Call = void (*)(Group&, std::vector<float>& in, std::vector<float>& out);
  const std::pair<const char*, Call> calls[] = {
      {"all_reduce", [](Group& g, auto& in, auto&) { g.all_reduce(in); }},
      {"reduce", [](Group& g, auto& in, auto&) { g.reduce(in, 0); }},
      {"broadcast", [](Group& g, auto& in, auto&) { g.broadcast(in, 0); }},
      {"broadcast of the late", [](Group& g, auto& in, auto&) { g.broadcast(in, 2); }},
      {"all_gather", [](Group& g, auto& in, auto& out) { g.all_gather(in, out); }},
      {"reduce_scatter", [](Group& g, auto& in, auto& out) { g.reduce_scatter(out, in); }},
      {"all_to_all",
       [](Group& g, auto&, auto& out) {
         std::vector<float> from(out.size());
         g.all_to_all(from, out);
       }},
      {"gather", [](Group& g, auto& in, auto& out) { g.gather(in, out, 0); }},
      {"scatter", [](Group& g, auto& in, auto& out) { g.scatter(out, in, 0); }},
      {"all_gather_v", [](Group& g, auto& in, auto& out) { g.all_gather_v(in, out, {kN, kN, kN}); }},
      {"gather_v", [](Group& g, auto& in, auto& out) { g.gather_v(in, out, {kN, kN, kN}, 1); }},
      {"scatter_v", [](Group& g, auto& in, auto& out) { g.scatter_v(out, in, {kN, kN, kN}, 1); }},
      {"all_to_all_v",
       [](Group& g, auto&, auto& out) {
         std::vector<float> from(out.size());
         g.all_to_all_v(from, {kN, kN, kN}, out, {kN, kN, kN});
       }},
      {"barrier", [](Group& g, auto&, auto&) { g.barrier(); }},
      {"recv", [](Group& g, auto& in, auto&) { g.recv(in, g.rank() == 2 ? 0 : 2); }},
      {"split", [](Group& g, auto&, auto&) { (void)g.split(0, 0); }},
  };
  // All at once, so that the limit may be long: in it a rank has to come, also one that gets no core for a while.
  const auto one_stays_away = [](const char* name, Call call) {
    std::atomic<int> over = 0;
    std::barrier both(2);  // their time begins together
    on_threads({.ranks = 3, .timeout = std::chrono::seconds(8), .backend = backend()}, [&](Group g) {
      std::vector<float> in(kN, 1), out(3 * kN, 1);
      while (g.rank() == 2 && over.load() < 2) std::this_thread::sleep_for(milliseconds(1));
      if (g.rank() != 2) both.arrive_and_wait();
      EXPECT_EQ(outcome([&] { call(g, in, out); }), code(Reason::kTimeout, 2)) << name << ", rank " << g.rank();
      ++over;
    });
  };
  std::vector<std::future<void>> groups;
  for (const auto& [name, call] : calls) groups.push_back(std::async(std::launch::async, one_stays_away, name, call));
  for (auto& group : groups) group.get();
}

TEST_P(FaultsTest, AbortFreesWhoWaitsAndSaysWhy) {
  on_threads({.ranks = 3, .backend = backend()}, [](Group g) {
    if (g.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(30));
      g.abort("enough");
      return;
    }
    try {
      g.barrier();
      ADD_FAILURE() << "the barrier was passed";
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.reason(), Reason::kAborted);
      EXPECT_NE(std::string(error.what()).find("enough"), std::string::npos);
      EXPECT_EQ(error.operation(), "barrier");
      EXPECT_EQ(error.group(), "test");
      EXPECT_EQ(error.rank(), g.rank());
    }
    EXPECT_EQ(outcome([&] { sum(g, 1); }), code(Reason::kAborted)) << "the group stays failed";
  });
}

// SHC-2: all ranks hear both sides, and no data has moved.
TEST_P(FaultsTest, AMismatchIsToldToAllRanksWithBothSignatures) {
  using Call = void (*)(Group&);
  const std::pair<Call, Call> calls[] = {
      {[](Group& g) { sum(g, 1000); }, [](Group& g) { sum(g, 1001); }},
      {[](Group& g) { sum(g, 1000); },
       [](Group& g) {
         std::vector<std::int32_t> v(1000);
         g.all_reduce(v);
       }},
      {[](Group& g) { sum(g, 1000); },
       [](Group& g) {
         std::vector<float> v(1000);
         g.all_reduce(v, Op::kMax);
       }},
      {[](Group& g) { sum(g, 1000); }, [](Group& g) { g.barrier(); }},
      {[](Group& g) {
         std::vector<float> v(10);
         g.broadcast(v, 0);
       },
       [](Group& g) {
         std::vector<float> v(10);
         g.broadcast(v, 2);
       }},
      {[](Group& g) { sum(g, 1'000'000); }, [](Group& g) { sum(g, 2); }},
      {[](Group& g) { g.barrier(); }, [](Group& g) { (void)g.split(0, 0); }},
      {[](Group& g) {
         std::vector<float> v(9), out(27);
         g.all_gather(v, out);
       },
       [](Group& g) {
         std::vector<float> v(9), out(27);
         g.all_gather_v(v, out, {9, 9, 9});
       }},
      {[](Group& g) {
         std::vector<float> v(9), out(27);
         g.gather(v, out, 0);
       },
       [](Group& g) {
         std::vector<double> v(9), out(27);
         g.gather(v, out, 0);
       }},
      {[](Group& g) {
         std::vector<float> v(9), out(27);
         g.scatter(out, v, 0);
       },
       [](Group& g) {
         std::vector<float> v(8), out(24);
         g.scatter(out, v, 0);
       }},
      {[](Group& g) {
         std::vector<float> v(9), out(9);
         g.all_to_all(v, out);
       },
       [](Group& g) {
         std::vector<float> v(6), out(6);
         g.all_to_all(v, out);
       }},
      {[](Group& g) {
         std::vector<float> v(9), out(3);
         g.reduce_scatter(v, out);
       },
       [](Group& g) {
         std::vector<float> v(6), out(2);
         g.reduce_scatter(v, out);
       }},
  };
  for (const auto& [one, other] : calls)
    on_threads({.ranks = 3, .backend = backend()}, [&, one = one, other = other](Group g) {
      try {
        (g.rank() == 1 ? other : one)(g);
        ADD_FAILURE() << "nobody noticed";
      } catch (const CollectiveError& error) {
        EXPECT_EQ(error.reason(), Reason::kMismatch) << error.what();
        EXPECT_NE(std::string(error.what()).find("rank 1 called"), std::string::npos) << error.what();
      }
    });
}

TEST_P(FaultsTest, MessagesOfAnotherTypeAreAMismatch) {
  on_threads({.ranks = 2, .backend = backend()}, [](Group g) {
    std::vector<float> data(10);
    std::vector<std::int32_t> other(10);
    if (g.rank() == 0) {
      auto sent = g.send_async(data, 1, 3);
      EXPECT_EQ(outcome([&] { g.barrier(); }), code(Reason::kMismatch));
    } else {
      EXPECT_EQ(outcome([&] { g.recv(other, 0, 3); }), code(Reason::kMismatch));
    }
  });
}

TEST_P(FaultsTest, MessagesOfAnotherSizeAreAMismatch) {
  on_threads({.ranks = 2, .backend = backend()}, [](Group g) {
    std::vector<float> data(10);
    if (g.rank() == 0) {
      auto sent = g.send_async(data, 1);
      EXPECT_EQ(outcome([&] { g.barrier(); }), code(Reason::kMismatch));
    } else {
      data.resize(11);
      EXPECT_EQ(outcome([&] { g.recv(data, 0); }), code(Reason::kMismatch));
    }
  });
}

// GR-2
TEST_P(FaultsTest, WhatIsWrongByItselfLeavesTheGroupWhole) {
  on_threads({.ranks = 2, .backend = backend()}, [](Group g) {
    std::vector<float> a(10), b(11);
    EXPECT_THROW(g.all_reduce(a, b), InvalidArgumentError);
    EXPECT_THROW(g.reduce(a, 2), InvalidArgumentError);
    EXPECT_THROW(g.broadcast(a, -1), InvalidArgumentError);
    EXPECT_THROW(g.all_gather(a, b), InvalidArgumentError);
    EXPECT_THROW(g.send(a, 7), InvalidArgumentError);
    EXPECT_THROW(g.all_gather_v(a, b, {1}), InvalidArgumentError);
    EXPECT_THROW(g.all_to_all(b, b), InvalidArgumentError);
    EXPECT_THROW(g.all_reduce(std::span(b).first(10), std::span(b).last(10)), InvalidArgumentError) << "they overlap";
    sum(g, 5);
  });
  EXPECT_THROW(Group().barrier(), InvalidArgumentError);
}

TEST_P(FaultsTest, WorkFailsWithItsOwnErrorAndDroppingItIsSafe) {
  on_threads({.ranks = 2, .timeout = milliseconds(200), .backend = backend()}, [](Group g) {
    if (g.rank() == 1) return;
    std::vector<double> data(100);
    Work work = g.all_reduce_async(data);
    EXPECT_EQ(outcome([&] { work.wait(); }), code(Reason::kTimeout, 1));
    EXPECT_TRUE(work.done());
    Work dropped;
    EXPECT_NO_THROW(dropped = g.all_reduce_async(data));
  });
}

// Eight ranks on two cores, small operations: nobody may burn the time slice that another needs.
TEST_P(FaultsTest, ManyMoreRanksThanCores) {
  Processes ranks({.ranks = 8, .backend = backend()}, [](Group g) {
    for (int i = 0; i < 500; ++i) {
      std::vector<std::int64_t> v{g.rank()};
      g.all_reduce(v);
      if (v[0] != 28) return 1;
    }
    return 0;
  });
  for (int r = 0; r < 8; ++r) EXPECT_EQ(ranks.wait(r), 0);
}

// What a group holds is given back: descriptors, threads, memory.
TEST_P(FaultsTest, AThousandGroupsLeaveNothing) {
  const auto entries = [](const char* folder) {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
    return n;
  };
  std::size_t files = 0, threads = 0;
  for (int i = 0; i <= 1000; ++i) {
    if (i == 1) {  // the first may start what the process keeps, such as a sanitizer's thread
      files = entries("/proc/self/fd");
      threads = entries("/proc/self/task");
    }
    Group g = Founding({.ranks = 1, .slot_bytes = 4096, .backend = backend()}).member(0);
    sum(g, 10);
    auto work = g.barrier_async();
    work.wait();
  }
  EXPECT_EQ(entries("/proc/self/fd"), files);
  // A joined thread is in the list a moment longer, on both sides of the comparison.
  const auto deadline = Clock::now() + std::chrono::seconds(30);
  while (entries("/proc/self/task") > threads && Clock::now() < deadline) std::this_thread::yield();
  EXPECT_LE(entries("/proc/self/task"), threads);
}

// What a sanitizer adds to each instruction takes minutes step by step, and more steps than are tried here.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// A child that calls fail() on the segment and is killed after so many of its instructions. False: it had come to its
/// end.
bool fail_and_die_after(ShmSegment& segment, int instructions, bool* traced) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(1);
    ::raise(SIGSTOP);
    segment.fail({Reason::kTimeout, "the first one's words", {1}});
    ::_exit(0);
  }
  int status = 0;
  bool running = ::waitpid(child, &status, 0) == child && WIFSTOPPED(status);
  *traced = *traced && running;
  for (int i = 0; running && i < instructions; ++i)
    running = ::ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0 && ::waitpid(child, &status, 0) == child &&
              WIFSTOPPED(status);
  if (!running) return false;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  return true;
}

// SG-3: killed at every instruction of it, a rank that records a failure keeps nobody else from recording one.
TEST(SegmentTest, WhoDiesWhileItRecordsAFailureHindersNobody) {
  bool traced = true, died = true;
  for (int instructions = 0; died && traced && instructions < 20'000; instructions += instructions < 1500 ? 1 : 37) {
    const auto segment = *ShmSegment::create({.ranks = 2, .epoch = 1, .key = 5, .slot_bytes = 4096});
    died = fail_and_die_after(*segment, instructions, &traced);
    segment->fail({Reason::kDied, "the second one's words", {0}});
    ASSERT_TRUE(segment->has_failed()) << "killed after " << instructions << " instructions";
    const Failure failure = segment->failure();
    const bool first = failure.reason == Reason::kTimeout;
    EXPECT_EQ(failure.text, first ? "the first one's words" : "the second one's words") << instructions;
    EXPECT_EQ(failure.missing_ranks, std::vector{first ? 1 : 0}) << instructions;
  }
  if (!traced) GTEST_SKIP() << "no process may be traced here";
  EXPECT_FALSE(died) << "the last child came to the end of fail()";
}
#endif

TEST(SegmentTest, TheBuffersFitTheCacheThatTheCoresShare) {
  constexpr std::size_t kKiB = 1024, kMiB = 1024 * kKiB;
  EXPECT_EQ(usual_slot(2, 32 * kMiB), 2 * kMiB);
  EXPECT_EQ(usual_slot(4, 32 * kMiB), 1 * kMiB);
  EXPECT_EQ(usual_slot(4, 105 * kMiB), 2 * kMiB);  // twice the cache: fewer, larger chunks
  EXPECT_EQ(usual_slot(4, 8 * kMiB), 256 * kKiB);
  for (int ranks : {1, 2, 3, 8, 9, 16, 17, 128, 129, kShmRanksMax})
    for (std::size_t cache : {std::size_t{1}, 1 * kMiB, 12 * kMiB, 32 * kMiB, 260 * kMiB, 4096 * kMiB}) {
      const std::size_t slot = usual_slot(ranks, cache);
      EXPECT_GE(slot, 64 * kKiB) << ranks << ", " << cache;
      EXPECT_LE(slot, 2 * kMiB) << ranks << ", " << cache;
      EXPECT_LE(slot * kRing * std::size_t(ranks), 256 * kMiB) << ranks << ", " << cache;
    }
}

// SG-3: where all records were taken by ranks that died over them, the reason is left.
TEST(SegmentTest, WithoutARecordTheReasonIsKept) {
  const auto segment = *ShmSegment::create({.ranks = 2, .epoch = 1, .key = 5, .slot_bytes = 4096});
  segment->control().records_taken = kFailureRecords;
  segment->fail({Reason::kMismatch, "words", {0}});
  EXPECT_TRUE(segment->has_failed());
  EXPECT_EQ(segment->failure().reason, Reason::kMismatch);
}

TEST(ErrorTest, TheFieldsSurviveTheWire) {
  const CollectiveError error = CollectiveError::from({Reason::kDied, "dp", 7, 42, "all_reduce", 3, {1, 2}}, "text");
  const auto again = Error::make(error.record());
  const auto* typed = dynamic_cast<const CollectiveError*>(again.get());
  ASSERT_NE(typed, nullptr);
  EXPECT_EQ(typed->reason(), Reason::kDied);
  EXPECT_EQ(typed->group(), "dp");
  EXPECT_EQ(typed->epoch(), 7u);
  EXPECT_EQ(typed->sequence(), 42u);
  EXPECT_EQ(typed->operation(), "all_reduce");
  EXPECT_EQ(typed->rank(), 3);
  EXPECT_EQ(typed->missing_ranks(), (std::vector{1, 2}));
}

// SHC-4, TL-1, HCM-2: a rank of neither of the two smaller groups dies; who waits in the smallest hears of it.
TEST_P(FaultsTest, ASplitOfASplitEndsWithARankOfTheFirstGroup) {
  auto* const split = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(split), MAP_FAILED);
  Processes ranks({.ranks = 4, .backend = backend()}, [split](Group g) {
    Group half = g.split(g.rank() == 3 ? 1 : 0, g.rank());
    if (g.rank() == 3) {
      while (split->load() < 3) std::this_thread::sleep_for(milliseconds(1));
      ::raise(SIGKILL);
    }
    Group pair = half.split(g.rank() == 2 ? 1 : 0, g.rank());
    ++*split;
    if (g.rank() != 0)
      for (;;) ::pause();  // in no operation: it tells nobody anything
    return outcome([&] { pair.barrier(); });
  });
  EXPECT_EQ(ranks.wait(0), code(Reason::kDied));
  ::munmap(split, sizeof(std::atomic<int>));
}

// SHC-4
TEST(ShmSplits, SHC4_ASplitOfASplitIsStaleWhenTheFirstGroupIsFormedAgain) {
  Founding founding({.ranks = 2, .backend = Backend::kShm});
  std::atomic<int> over = 0;
  const auto rank = [&](int number) {
    const auto first = founding.communicator(number);
    Patience patience(std::chrono::seconds(60), nullptr);
    const auto second = first->split(0, number, patience);
    const auto third = second->split(0, number, patience);
    EXPECT_FALSE(third->stale());
    ++over;
    while (over.load() < 2) std::this_thread::sleep_for(milliseconds(1));
    if (number == 0) founding.segment()->supersede(2);
    ++over;
    while (over.load() < 4) std::this_thread::sleep_for(milliseconds(1));
    EXPECT_TRUE(third->stale());
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
}

/// As long as it lives, this process can begin no thread: none gets a stack.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    ::pthread_attr_setstacksize(&huge, std::size_t(1) << 50);  // more than a process has addresses
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }

 private:
  pthread_attr_t before_{};
};

TEST(WatchTest, WA3_ALackOfDescriptorsOrThreadsIsNobodysDeath) {
  const int child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  std::promise<int> died;
  Watch watch([&](int who) { died.set_value(who); });
  auto heard = died.get_future();
  const std::uint64_t started = process_start_time(child);
  for (int left : {0, 1}) {  // for the process; for its start time, and for the thread's bell
    const FewDescriptors few(left);
    EXPECT_FALSE(watch.add(7, child, started)) << left << " left";
    EXPECT_FALSE(watch.add(7, child, 0)) << left << " left";
  }
  {
    const NoThreads none;
    EXPECT_FALSE(watch.add(7, child, started)) << "no thread";
  }
  EXPECT_EQ(heard.wait_for(milliseconds(0)), std::future_status::timeout);
  EXPECT_TRUE(watch.add(7, child, started));
  ::kill(child, SIGKILL);
  ASSERT_EQ(heard.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(heard.get(), 7);
  ::waitpid(child, nullptr, 0);
}

// WA-3: a rank that cannot watch the others takes none of them for dead, and watches them once it can.
TEST(ShmFaults, WA3_WhoHasNoDescriptorLeftWaitsOnAndHearsOfADeathOnceItHasOne) {
  if (kSanitizerNeedsDescriptors) GTEST_SKIP() << "the sanitizer needs descriptors";
  auto* const step = static_cast<std::atomic<int>*>(
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(static_cast<void*>(step), MAP_FAILED);
  Processes ranks({.ranks = 2}, [step](Group g) {
    if (g.rank() == 1) {
      step->store(1);  // it has its place: it can be watched
      while (step->load() < 2) ::usleep(1000);
      g.barrier();
      step->store(3);
      for (;;) ::pause();
    }
    while (step->load() < 1) ::usleep(1000);
    {
      const FewDescriptors none(0);
      if (outcome([&] { g.barrier(); }) != 0) return 1;
    }
    return outcome([&] { g.barrier(); });
  });
  ShmSegment& segment = ranks.segment();
  while (segment.lines(0).sleeping.load() == 0 && !segment.has_failed()) ::usleep(1000);
  EXPECT_FALSE(segment.has_failed()) << segment.failure().text;
  step->store(2);
  while (step->load() < 3 && !segment.has_failed()) ::usleep(1000);
  ::kill(ranks.pid(1), SIGKILL);
  EXPECT_EQ(ranks.wait(0), code(Reason::kDied, 1));
  ::munmap(step, sizeof(std::atomic<int>));
}

TEST(FailureTest, CFL1_AFailureOfAPartIsToldInTheRanksOfTheGroup) {
  const CollectiveError error = CollectiveError::from(
      {.reason = Reason::kDied, .operation = "join", .rank = 0, .missing_ranks = {1, 0}}, "they are gone");
  const Failure died = told_above(failure_of(error), {2, 5});
  EXPECT_EQ(died.reason, Reason::kDied);
  EXPECT_EQ(died.missing_ranks, (std::vector{5, 2}));
  EXPECT_NE(died.text.find("for ranks 5, 2;"), std::string::npos) << died.text;
  EXPECT_NE(died.text.find("they are gone"), std::string::npos) << died.text;
  const Failure odd = told_above(Failure{Reason::kTimeout, "late", {7, -1, 1}}, {2, 5});
  EXPECT_EQ(odd.missing_ranks, std::vector<int>{5}) << "a number that is no rank of the part names nobody";
  const Failure other = told_above(failure_of(InvalidArgumentError("no port")), {2, 5});
  EXPECT_EQ(other.reason, Reason::kBackend);
  EXPECT_TRUE(other.missing_ranks.empty());
  EXPECT_EQ(told_above(Failure{Reason::kBackend, "no socket", {}}, {}).text, "no socket");
}

// TCM-4, CFL-1: rank 3 of the group is rank 1 of the split, and what it has to say of the split's rank 0 is about rank
// 1 of the group.
TEST(TcpFaults, TCM4_WhatKeepsASplitFromBeingMadeIsToldInTheRanksOfTheGroup) {
  const Setting setting{.ranks = 4, .backend = Backend::kTcp};
  Wires wires(setting);
  const auto rank = [&](int number) {
    TcpOptions options{.key = 0x1234567};
    options.connect = [number](TcpLinks&, const Subgroup& subgroup,
                               Clock::time_point) -> Result<std::shared_ptr<TcpLinks>> {
      if (number != 3) return std::shared_ptr<TcpLinks>();
      EXPECT_EQ(subgroup.members, (std::vector{1, 3}));
      return CollectiveError::from(
          {.reason = Reason::kTimeout, .operation = "connect", .rank = 1, .missing_ranks = {0}}, "no answer");
    };
    TcpCommunicator group(wires.links_of(number), std::move(options));
    Patience patience(std::chrono::seconds(60), nullptr);
    EXPECT_EQ(group.split(number % 2, number, patience), nullptr) << number;
    while (!group.failure()) (void)group.wait_messages(Clock::now() + milliseconds(100), nullptr);
    const Failure failure = *group.failure();
    EXPECT_EQ(failure.reason, Reason::kTimeout) << failure.text;
    EXPECT_EQ(failure.missing_ranks, std::vector<int>{1}) << failure.text;
    EXPECT_NE(failure.text.find("for rank 1;"), std::string::npos) << failure.text;
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) threads.emplace_back(rank, number);
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace troupe::collective

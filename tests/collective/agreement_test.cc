// What ranks must agree on, what one rank's mistake costs, and deadlines of nothing: the same on all backends.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <limits>
#include <mutex>

#include "collective/base/signature.h"
#include "tests/collective/ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;

class AgreementTest : public ::testing::TestWithParam<Backend> {
 protected:
  /// Runs `body` as every rank: all must hear of a mismatch, with all of the words.
  static void expect_mismatch(int ranks, const std::function<void(Group&)>& body,
                              const std::vector<std::string>& words) {
    on_threads({.ranks = ranks, .backend = GetParam()}, [&](Group g) {
      try {
        body(g);
        ADD_FAILURE() << "rank " << g.rank() << " was not told";
      } catch (const CollectiveError& error) {
        EXPECT_EQ(error.reason(), Reason::kMismatch) << error.what();
        for (const std::string& word : words)
          EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << " is not in: " << error.what();
      }
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, AgreementTest, ::testing::Values(Backend::kShm, Backend::kTcp, Backend::kHier));

// SIG-1: factors that differ in their upper bits alone, and in their lowest.
TEST_P(AgreementTest, FactorsOfPreMulSumAreCompared) {
  for (const std::size_t count : {1u, 4u, 5u, 10'000u})
    for (const auto& [one, other, words] :
         {std::tuple(0.5, 0.25, std::vector<std::string>{"by 0.5", "by 0.25"}),
          std::tuple(1.0 / 3, std::nextafter(1.0 / 3, 1.0), std::vector<std::string>{"by 0.333"})})
      expect_mismatch(3, [&, one = one, other = other](Group& g) {
        std::vector<double> data(count, 1);
        g.all_reduce(data, Op::pre_mul_sum(g.rank() == 1 ? other : one));
      }, words);
  on_threads({.ranks = 3, .backend = GetParam()}, [](Group g) {
    for (const std::size_t count : {1u, 4u, 5u, 6u, 10'000u}) {
      std::vector<double> data(count, 1);
      g.all_reduce(data, Op::pre_mul_sum(0.5));
      EXPECT_EQ(data, std::vector<double>(count, 1.5));
    }
  });
}

// All ranks know the whole matrix before any data moves: nobody is done with an operation that failed.
TEST_P(AgreementTest, CountsOfAllToAllVAreComparedBeforeDataMoves) {
  std::atomic<int> touched = 0;
  expect_mismatch(3, [&](Group& g) {
    // Rank 0 sends two to rank 1, which wants three; all other parts fit.
    const std::vector<std::vector<std::size_t>> sends{{1, 2, 1}, {1, 1, 1}, {1, 1, 1}},
        wants{{1, 1, 1}, {3, 1, 1}, {1, 1, 1}};
    const auto me = std::size_t(g.rank());
    const std::vector<int> in(me == 0 ? 4 : 3, 7);
    std::vector<int> out(me == 1 ? 5 : 3, 0);
    try {
      g.all_to_all_v(in, sends[me], out, wants[me]);
    } catch (const CollectiveError&) {
      if (out != std::vector<int>(out.size(), 0)) ++touched;
      throw;
    }
  }, {"all_to_all_v", "rank 0 sends 2 elements to rank 1, which wants 3"});
  EXPECT_EQ(touched, 0);
}

// Each rank's error shows its own counts beside what was found.
TEST_P(AgreementTest, CountsThatDifferAreShown) {
  on_threads({.ranks = 3, .backend = GetParam()}, [](Group g) {
    std::vector<std::size_t> counts{1, 1, 1};
    if (g.rank() == 1) counts = {1, 1, 2};
    const std::vector<int> in(1);
    std::vector<int> out(counts[0] + counts[1] + counts[2]);
    try {
      g.all_gather_v(std::span(in).first(counts[std::size_t(g.rank())]), out, counts);
      ADD_FAILURE() << "rank " << g.rank() << " was not told";
    } catch (const CollectiveError& error) {
      EXPECT_EQ(error.reason(), Reason::kMismatch);
      EXPECT_NE(std::string(error.what()).find(g.rank() == 1 ? "counts of rank 1 are 1, 1, 2" : "are 1, 1, 1"),
                std::string::npos)
          << error.what();
    }
  });
}

// Who differs in which count, and by how much; where several differ, that.
TEST_P(AgreementTest, TheCountThatDiffersIsNamedByItsIndex) {
  using Call = void (*)(Group&, const std::vector<std::size_t>&);
  const Call calls[] = {
      [](Group& g, const auto& counts) {
        std::vector<float> in(counts[std::size_t(g.rank())]), out(counts[0] + counts[1] + counts[2] + counts[3]);
        g.all_gather_v(in, out, counts);
      },
      [](Group& g, const auto& counts) {
        std::vector<float> in(counts[std::size_t(g.rank())]), out(counts[0] + counts[1] + counts[2] + counts[3]);
        g.gather_v(in, out, counts, 0);
      },
      [](Group& g, const auto& counts) {
        std::vector<float> out(counts[std::size_t(g.rank())]), in(counts[0] + counts[1] + counts[2] + counts[3]);
        g.scatter_v(in, out, counts, 3);
      },
  };
  struct Case { std::vector<std::size_t> odd; std::vector<std::string> words; };
  const Case cases[] = {
      {{4, 1, 3, 2}, {"rank 3 called", "differ at index 0, where rank 3 has 3 more"}},
      {{1, 1, 3, 7'000'002}, {"differ at index 3", "7000000 more"}},
      {{1, 1, 0, 2}, {"differ at index 2", "3 less"}},
      {{2, 1, 3, 1}, {"differ at more than one index"}},
      {{3, 1, 2, 1}, {"differ at more than one index"}},  // the sum is the same
  };
  for (const Call call : calls)
    for (const Case& one : cases)
      expect_mismatch(
          4, [&](Group& g) { call(g, g.rank() == 3 ? one.odd : std::vector<std::size_t>{1, 1, 3, 2}); }, one.words);
}

// GR-2: sums that overflow, counts that no memory has, reductions that there are not.
TEST_P(AgreementTest, WhatNoMemoryHoldsIsRefusedBeforeAnythingIsSent) {
  constexpr std::size_t kHuge = std::numeric_limits<std::size_t>::max();
  on_threads({.ranks = 2, .backend = GetParam()}, [](Group g) {
    std::vector<std::int64_t> a(2), b(4);
    const std::vector<std::size_t> wraps =
        g.rank() == 0 ? std::vector<std::size_t>{2, kHuge} : std::vector<std::size_t>{kHuge, 2};
    EXPECT_THROW(g.all_gather_v(a, std::span(b).first(1), wraps), InvalidArgumentError) << "the sum is 1";
    EXPECT_THROW(g.gather_v(a, b, wraps, 0), InvalidArgumentError);
    EXPECT_THROW(g.gather_v(a, b, wraps, 1), InvalidArgumentError) << "the root or not";
    EXPECT_THROW(g.scatter_v(b, a, wraps, 0), InvalidArgumentError);
    EXPECT_THROW(g.all_to_all_v(std::span(a).first(1), wraps, b, {2, 2}), InvalidArgumentError);
    EXPECT_THROW(g.all_to_all_v(b, {2, 2}, std::span(a).first(1), wraps), InvalidArgumentError);
    EXPECT_THROW(g.all_gather_v(a, b, {2, kHuge / 8}), InvalidArgumentError) << "bytes overflow";
    const std::span<std::int64_t> endless(a.data(), kHuge / 2 + 1);
    EXPECT_THROW(g.all_gather(endless, std::span<std::int64_t>(b.data(), 0)), InvalidArgumentError);
    EXPECT_THROW(g.reduce_scatter(std::span<std::int64_t>(b.data(), 0), endless), InvalidArgumentError);
    EXPECT_THROW(g.broadcast(endless, 0), InvalidArgumentError);
    EXPECT_THROW(g.all_reduce(a, Op::Kind(17)), InvalidArgumentError);
    EXPECT_THROW((void)g.all_reduce_async(a, Op::Kind(6)), InvalidArgumentError);
    g.all_reduce(a);
  });
}

// OpOptions: a timeout of nothing, or less, expires at once, blocking or not; what is there already is done.
TEST_P(AgreementTest, ATimeoutOfNothingExpiresAtOnce) {
  using Call = std::function<void(Group&, OpOptions)>;
  const std::vector<Call> calls = {
      [](Group& g, OpOptions o) { g.barrier(o); },
      [](Group& g, OpOptions o) { g.barrier_async(o).wait(); },
      [](Group& g, OpOptions o) { std::vector<float> v(1); g.all_reduce(v, {}, o); },
      [](Group& g, OpOptions o) { std::vector<float> v(1'000'000); g.all_reduce_async(v, {}, o).wait(); },
      [](Group& g, OpOptions o) { std::vector<float> v(3); g.recv(v, 1, 0, o); },
      [](Group& g, OpOptions o) { std::vector<float> v(3); g.recv_async(v, 1, 0, o).wait(); },
  };
  for (const Duration timeout : {Duration::zero(), Duration(-1)})
    for (const Call& call : calls) {
      Founding founding({.ranks = 2, .backend = GetParam()});
      Group first = founding.member(0), second = founding.member(1);
      try {
        call(first, {.timeout = timeout});
        ADD_FAILURE() << "it did not expire";
      } catch (const CollectiveError& error) {
        EXPECT_EQ(error.reason(), Reason::kTimeout) << error.what();
        EXPECT_EQ(error.missing_ranks(), std::vector{1});
      }
    }
  Founding founding({.ranks = 2, .backend = GetParam()});
  Group first = founding.member(0), second = founding.member(1);
  const std::vector<float> sent{1, 2, 3};
  std::vector<float> got(3);
  first.send(sent, 1, 0, {.timeout = Duration::zero()});
  std::thread meets([&] { first.barrier(); });
  second.barrier();  // what was sent before it is there
  meets.join();
  second.recv(got, 0, 0, {.timeout = Duration::zero()});
  EXPECT_EQ(got, sent);
}

// What happened to an epoch before it was formed again does not matter any more: its handles, and those of its parts,
// are stale.
TEST_P(AgreementTest, AHandleOfAnOlderEpochIsStaleEvenWhereItHadFailed) {
  const Setting setting{.ranks = 2, .backend = GetParam()};
  Founding founding(setting);
  Wires wires(setting);
  std::shared_ptr<TcpLinks> links[2];
  std::vector<Group> groups, parts(2);
  for (int r = 0; r < 2; ++r) {
    if (GetParam() == Backend::kTcp)
      groups.push_back(
          group_of(std::make_unique<TcpCommunicator>(links[r] = wires.links_of(r), TcpOptions{.key = 7}), setting));
    else groups.push_back(founding.member(r));
  }
  std::thread other([&] { parts[1] = groups[1].split(0, 0); });
  parts[0] = groups[0].split(0, 0);
  other.join();
  const auto reason_of = [](Group& g) {
    try {
      g.barrier();
    } catch (const CollectiveError& error) {
      return error.reason();
    }
    return Reason::kBackend;
  };
  Work under_way = groups[0].barrier_async();
  groups[0].abort("it fails first");
  try {
    under_way.wait();
    ADD_FAILURE() << "the barrier was passed";
  } catch (const CollectiveError& error) {
    EXPECT_EQ(error.reason(), Reason::kAborted);
  }
  for (Group& part : parts) EXPECT_EQ(reason_of(part), Reason::kAborted) << "a part fails with its group";
  if (GetParam() == Backend::kTcp) for (auto& one : links) one->supersede();
  else founding.segment()->supersede(2);
  for (Group* g : {&groups[0], &groups[1], &parts[0], &parts[1]}) {
    EXPECT_EQ(reason_of(*g), Reason::kStale);
    EXPECT_THROW((void)g->barrier_async(), CollectiveError);
  }
}

// An operation that is carried out by other means is agreed on with these: as a barrier, whatever its kind; against
// another side, another operation, or a barrier of its own it is a mismatch on all ranks.
TEST_P(AgreementTest, WhatGoesByOtherMeansIsAgreedOn) {
  const Setting setting{.ranks = 3, .backend = GetParam()};
  std::vector<float> data(100, 1);
  const detail::Operation sum{.kind = detail::Kind::kAllReduce,
                              .type = detail::DType::kF32,
                              .in = data.data(),
                              .in_count = 100,
                              .out = data.data(),
                              .out_count = 100};
  const Signature here = signature_of(sum), there = here.in_device_memory();
  EXPECT_EQ(describe(there), describe(here) + " in device memory");
  for (const int odd : {0, 1, 2})
    for (const bool barrier : {false, true}) {
      Founding founding(setting);
      // who is still in an operation when two others mismatch in the next one does not end it well
      std::barrier whole(setting.ranks);
      std::vector<std::thread> ranks;
      for (int r = 0; r < setting.ranks; ++r)
        ranks.emplace_back([&, r] {
          const auto own = founding.communicator(r);
          Patience patience(std::chrono::seconds(60), nullptr);
          for (int round = 0; round < 3; ++round) EXPECT_TRUE(own->agree_on(there, patience));
          EXPECT_TRUE(own->agree_on(here, patience));
          std::vector<float> memory(100, 1);
          detail::Operation operation = sum;
          operation.in = operation.out = memory.data();
          EXPECT_TRUE(own->run(operation, patience));
          EXPECT_EQ(memory[99], 3);
          whole.arrive_and_wait();
          EXPECT_FALSE(r != odd ? own->agree_on(there, patience)
                                : own->run(barrier ? detail::Operation{} : operation, patience));
          const Failure failure = own->failure().value_or(Failure{});
          EXPECT_EQ(failure.reason, Reason::kMismatch) << failure.text;
          for (const std::string& word :
               {"rank " + std::to_string(odd), describe(there), std::string(barrier ? "barrier" : "(sum)")})
            EXPECT_NE(failure.text.find(word), std::string::npos) << word << " is not in: " << failure.text;
          EXPECT_TRUE(barrier || failure.text.find(describe(here) + ", rank") != std::string::npos ||
                      failure.text.ends_with(describe(here)))
              << failure.text;
        });
      for (auto& rank : ranks) rank.join();
    }
}

/// Fibers of one thread: whoever waits lets the next one run, on the same thread, before it sleeps.
class OneThread final : public Environment {
 public:
  void add(std::function<void()> fiber) { fibers_.push_back(std::move(fiber)); }
  void run() {
    if (fibers_.empty()) return;
    const auto next = std::move(fibers_.front());
    fibers_.pop_front();
    next();
  }
  bool on_fiber() override { return true; }
  void check() override {}
  std::unique_ptr<Suspension> suspension() override { return std::make_unique<Sleep>(*this); }

 private:
  class Sleep final : public Suspension {
   public:
    explicit Sleep(OneThread& thread) : thread_(thread) {}
    void notify() noexcept override {
      std::lock_guard lock(mutex_);
      notified_ = true;
      wakes_.notify_all();
    }
    bool wait(Clock::time_point deadline) override {
      thread_.run();
      std::unique_lock lock(mutex_);
      if (deadline == Clock::time_point::max()) wakes_.wait(lock, [&] { return notified_; });
      else wakes_.wait_until(lock, deadline, [&] { return notified_; });
      return std::exchange(notified_, false);
    }

   private:
    OneThread& thread_;
    std::mutex mutex_;
    std::condition_variable wakes_;
    bool notified_ = false;
  };
  std::deque<std::function<void()>> fibers_;
};

// GMB-6: ranks that are fibers of one thread (light actors) do not block each other in a split.
TEST_P(AgreementTest, RanksOnOneThreadCanSplit) {
  const Setting setting{.ranks = 3, .timeout = std::chrono::seconds(20), .backend = GetParam()};
  Founding founding(setting);
  const auto thread = std::make_shared<OneThread>();
  int done = 0;
  for (int r = 0; r < 3; ++r) {
    Group g(std::make_shared<detail::Member>(
        founding.communicator(r),
        detail::MemberOptions{.group = "fibers", .timeout = setting.timeout, .environment = thread}));
    thread->add([g, &done]() mutable {
      Group half = g.split(g.rank() == 2 ? 1 : 0, -g.rank());
      EXPECT_EQ(half.size(), g.rank() == 2 ? 1 : 2);
      EXPECT_EQ(half.rank(), g.rank() == 0 ? 1 : 0);
      ++done;
    });
  }
  EXPECT_NO_THROW(thread->run());
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace troupe::collective

// What a group on several nodes promises beyond what every backend does: its plans, the order of reduction, and
// failures that pass from a node's memory to the sockets and back.
#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <deque>
#include <future>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "collective/hier/plan.h"
#include "collective/tcp/mesh.h"
#include "kernels/cpu/reduce/reduce.h"
#include "tests/collective/ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;
using std::chrono::milliseconds;

// --------------------------------------------------------------------------------------------------------------- plans

using Words = std::vector<std::uint64_t>;

/// Carries the plans of all ranks out: messages first, then the parcels of each node. False: a message too many, or of
/// another size.
bool carry_out(const std::vector<int>& nodes, const std::vector<MovePlan>& plans, const std::vector<Words>& in,
               std::vector<Words>& data) {
  std::map<std::pair<int, int>, Words> mail;
  const auto cut = [&](int rank, const Range& range) {
    const Words& from = range.memory == Memory::kInput ? in[std::size_t(rank)] : data[std::size_t(rank)];
    return Words(from.begin() + std::ptrdiff_t(range.begin), from.begin() + std::ptrdiff_t(range.end));
  };
  const auto put = [&](int rank, std::size_t at, const Words& words) {
    std::ranges::copy(words, data[std::size_t(rank)].begin() + std::ptrdiff_t(at));
  };
  const int ranks = int(nodes.size());
  for (int r = 0; r < ranks; ++r)
    for (const Step& step : plans[std::size_t(r)].across.steps)
      // HP-2
      if (step.kind == Step::Kind::kSend && !mail.emplace(std::pair(r, step.peer), cut(r, step.range)).second)
        return false;
  for (int r = 0; r < ranks; ++r)
    for (const Step& step : plans[std::size_t(r)].across.steps) {
      if (step.kind == Step::Kind::kCopy) put(r, step.range.begin, cut(r, step.from));
      if (step.kind != Step::Kind::kReceive) continue;
      const auto found = mail.find({step.peer, r});
      if (found == mail.end() || found->second.size() != step.range.size() ||
          nodes[std::size_t(step.peer)] == nodes[std::size_t(r)])
        return false;
      put(r, step.range.begin, found->second);
      mail.erase(found);
    }
  for (int r = 0; r < ranks; ++r) {
    const NodeMap map(nodes, r);
    for (std::size_t giver = 0; giver < map.here().size(); ++giver) {
      const int from = map.here()[giver];
      const auto &mine = plans[std::size_t(r)].inside[giver], &its = plans[std::size_t(from)].inside[giver];
      if (mine.size() != its.size()) return false;  // HP-3
      for (std::size_t i = 0; i < mine.size(); ++i) {
        if (mine[i].from.size() != its[i].from.size()) return false;
        if (mine[i].wanted) put(r, mine[i].to, cut(from, its[i].from));
      }
    }
  }
  return mail.empty();
}

std::vector<std::vector<int>> some_maps() {
  std::vector<std::vector<int>> maps{{0},          {0, 0},       {0, 1},          {5, 5, 3},
                                     {0, 1, 0, 1}, {0, 0, 0, 1}, {0, 0, 1, 1, 2}, {2, 1, 0, 1, 2, 2, 2, 0}};
  std::mt19937 random(7);
  for (int ranks : {17, 64, 100}) {
    maps.emplace_back();
    for (int r = 0; r < ranks; ++r) maps.back().push_back(int(random() % 9));
  }
  return maps;
}

// HP-1, HP-2, HP-3: on any map, with parts of any size, some of them empty.
TEST(HierPlanTest, EveryPartArrivesWhereItIsWanted) {
  for (const auto& nodes : some_maps()) {
    const std::size_t n = nodes.size();
    std::vector<std::size_t> counts(n);
    for (std::size_t r = 0; r < n; ++r) counts[r] = r * 7 % 5;
    const auto at = offsets_of(counts);
    const std::size_t total = at.back() + counts.back();
    std::vector<Words> in, data(n, Words(total));
    Words want;
    for (std::size_t r = 0; r < n; ++r) {
      for (std::size_t i = 0; i < counts[r]; ++i) want.push_back(1000 * r + i + 1);
      in.emplace_back(want.end() - std::ptrdiff_t(counts[r]), want.end());
    }
    std::vector<MovePlan> plans;
    for (std::size_t r = 0; r < n; ++r) plans.push_back(all_gather_plan(NodeMap(nodes, int(r)), counts));
    ASSERT_TRUE(carry_out(nodes, plans, in, data)) << n << " ranks";
    for (const Words& got : data) EXPECT_EQ(got, want);
    // everything to everybody, by pairs: rank a has a part of (a + b) mod 4 for b
    const auto size = [](int a, int b) { return std::optional(std::size_t(a + b) % 4); };
    plans.clear(), in.clear(), data.clear();
    std::vector<Words> wanted(n);
    for (std::size_t r = 0; r < n; ++r) {
      std::vector<std::size_t> out;
      Words mine;
      for (std::size_t q = 0; q < n; ++q) {
        out.push_back(*size(int(r), int(q)));
        for (std::size_t i = 0; i < out.back(); ++i)
          mine.push_back(r * 10'000 + q * 10 + i), wanted[q].push_back(mine.back());
      }
      in.push_back(mine);
      data.emplace_back(mine.size());
      // (a + b) mod 4 is symmetric
      plans.push_back(pairs_plan(NodeMap(nodes, int(r)), {size, offsets_of(out), offsets_of(out)}));
    }
    ASSERT_TRUE(carry_out(nodes, plans, in, data)) << n << " ranks";
    for (std::size_t r = 0; r < n; ++r) EXPECT_EQ(data[r], wanted[r]);
  }
}

// HP-1: an all-gather sends each part to each other node once.
TEST(HierPlanTest, APartCrossesToANodeOnce) {
  const std::vector<int> nodes{0, 1, 0, 1, 2, 1, 0, 2};
  std::map<std::pair<int, int>, int> crossings;
  for (int r = 0; r < 8; ++r)
    for (const Step& step : all_gather_plan(NodeMap(nodes, r), std::vector<std::size_t>(8, 3)).across.steps)
      if (step.kind == Step::Kind::kSend) ++crossings[{r, nodes[std::size_t(step.peer)]}];
  EXPECT_EQ(crossings.size(), 8u * 2u);
  for (const auto& [pair, times] : crossings) EXPECT_EQ(times, 1);
}

// ---------------------------------------------------------------------------------------------------------- reductions

template <class T> std::vector<T> random_of(int rank, std::size_t n) {
  std::mt19937 random(unsigned(rank) + 1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> all(n);
  for (T& x : all) x = T(uniform(random));
  return all;
}

template <class T> void expect_rank_order(Group& g, std::size_t n) {
  std::vector<std::vector<T>> all;
  std::vector<const void*> inputs;
  for (int r = 0; r < g.size(); ++r) all.push_back(random_of<T>(r, n));
  for (const auto& one : all) inputs.push_back(one.data());
  std::vector<T> want(n), got = all[std::size_t(g.rank())], at_root(n);
  kernels::reduce(want.data(), inputs, n, kernels::dtype_of<T>(), {});
  g.reduce(got, at_root, 1);
  g.all_reduce(got);
  EXPECT_EQ(std::memcmp(got.data(), want.data(), n * sizeof(T)), 0) << n;
  EXPECT_TRUE(g.rank() != 1 || std::memcmp(at_root.data(), want.data(), n * sizeof(T)) == 0) << n;
}

// HCM-4: the bits of shared memory, from one shot to several turns.
TEST(HierTest, DeterministicReductionsAreInRankOrder) {
  on_threads({.ranks = 4, .backend = Backend::kHier, .deterministic = true, .nodes = {0, 1, 1, 0}}, [](Group g) {
    for (std::size_t n : {std::size_t(3), std::size_t(100'000), std::size_t(5'000'000)}) expect_rank_order<float>(g, n);
    expect_rank_order<bfloat16>(g, 100'001);
  });
}

// HCM-4: equal bits on all ranks and runs, by columns (several rounds and a rest) and by leaders.
TEST(HierTest, AllRanksAndRunsGetEqualBits) {
  for (const std::vector<int>& nodes : {std::vector{0, 0, 1, 1}, std::vector{0, 1, 0, 0}}) {
    constexpr std::size_t kCount = 3'000'001;
    std::vector<std::vector<float>> results(8);
    for (int run = 0; run < 2; ++run)
      on_threads({.ranks = 4, .backend = Backend::kHier, .nodes = nodes}, [&](Group g) {
        auto data = random_of<float>(g.rank(), kCount);
        g.all_reduce(data);
        results[std::size_t(4 * run + g.rank())] = std::move(data);
      });
    for (const auto& one : results) EXPECT_EQ(std::memcmp(one.data(), results[0].data(), kCount * sizeof(float)), 0);
    const auto a = random_of<float>(0, kCount), b = random_of<float>(1, kCount), c = random_of<float>(2, kCount),
               d = random_of<float>(3, kCount);
    for (std::size_t i = 0; i < kCount; i += 1013) EXPECT_NEAR(results[0][i], a[i] + b[i] + c[i] + d[i], 1e-5);
  }
}

// ------------------------------------------------------------------------------------------------------------ failures

/// The error of an operation, or nothing.
template <class F> std::optional<CollectiveError> error_of(F&& operation) {
  try {
    operation();
  } catch (const CollectiveError& error) {
    return error;
  }
  return std::nullopt;
}
void sum(Group& g, std::size_t n) {
  std::vector<float> data(n, 1);
  g.all_reduce(data);
}

// HCM-3: who waits for one that waits is not misled, wherever the missing one is: on a leader's node, or the leader
// itself.
TEST(HierTest, WhoDoesNotComeIsNamedOnAllNodes) {
  const auto one_is_late = [](int late) {
    std::promise<void> over;
    const auto done = over.get_future().share();
    std::atomic<int> heard{0};
    on_threads({.ranks = 5, .timeout = std::chrono::seconds(8), .backend = Backend::kHier, .nodes = {0, 0, 1, 1, 2}},
               [&](Group g) {
                 g.barrier({.timeout = std::chrono::seconds(60)});  // they only gather
                 if (g.rank() == late) return done.wait();
                 const auto error = error_of([&] { sum(g, 10); });
                 ASSERT_TRUE(error);
                 EXPECT_EQ(error->reason(), Reason::kTimeout) << error->what();
                 EXPECT_EQ(error->missing_ranks(), std::vector{late}) << error->what();
                 if (heard.fetch_add(1) == 3) over.set_value();
               });
  };
  // All at once, so that the limit may be long: in it the others have to come, also one that gets no core for a while.
  std::vector<std::future<void>> groups;
  for (const int late : {0, 1, 3, 4}) groups.push_back(std::async(std::launch::async, one_is_late, late));
  for (auto& group : groups) group.get();
}

// HCM-3: rank 1 has come, given its node what that needs, and stops. Rank 2 waits in memory for rank 3, which waits for
// rank 1 across; its time is up first.
TEST(HierTest, HCM3_WhoWaitsAcrossIsNotNamedByWhoWaitsForItInMemory) {
  constexpr std::size_t kCount = 1000;
  const std::vector<int> nodes{0, 0, 1, 1};
  Founding founding({.ranks = 4, .backend = Backend::kTcp});
  const std::shared_ptr<ShmSegment> segments[] = {make_segment({.ranks = 2}), make_segment({.ranks = 2})};
  const auto across = [&](int rank) {
    return std::unique_ptr<TcpCommunicator>(static_cast<TcpCommunicator*>(founding.communicator(rank).release()));
  };
  std::map<int, std::unique_ptr<HierCommunicator>> ranks;
  for (int r : {0, 2, 3})
    ranks[r] = std::make_unique<HierCommunicator>(
        nodes, std::make_unique<ShmCommunicator>(segments[r / 2], r % 2), across(r), HierOptions{.columns_min = 1});
  ShmCommunicator frozen_inside(segments[0], 1);
  const auto frozen_across = across(1);
  std::vector<std::vector<float>> data(4, std::vector<float>(kCount, 1));
  const auto operation = [&](int rank) { return all_reduce_of(data[std::size_t(rank)]); };
  std::map<int, Patience> patiences;
  for (int r : {0, 1, 2, 3})
    patiences.emplace(r, Patience(milliseconds(r == 2 ? 8000 : 60'000), nullptr));
  const Signature signature = signature_of(operation(1));
  std::vector<std::thread> threads;
  for (const auto& [rank, one] : ranks)
    threads.emplace_back([&, rank = rank] { EXPECT_FALSE(ranks[rank]->run(operation(rank), patiences.at(rank))); });
  frozen_across->links()->working_on({1, signature});
  frozen_across->links()->tell_progress({});
  detail::Operation down = operation(1);
  down.kind = detail::Kind::kReduceScatter, down.out_count = kCount / 2;
  EXPECT_TRUE(frozen_inside.run(down, signature, patiences.at(1)));
  for (auto& thread : threads) thread.join();
  for (const auto& [rank, one] : ranks) {
    const auto failure = one->failure();
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->reason, Reason::kTimeout);
    EXPECT_NE(failure->text.find("rank 2 waited"), std::string::npos) << failure->text;
    EXPECT_EQ(failure->missing_ranks, std::vector{1}) << failure->text;
  }
}

// HCM-1: between ranks of one node, and between nodes whose ranks agree among themselves.
TEST(HierTest, AMismatchIsToldToAllNodes) {
  const auto expect_mismatch = [](const std::function<bool(int)>& odd, const char* text) {
    for (std::size_t n : {std::size_t(8), std::size_t(1'000'000)})
      on_threads({.ranks = 4, .backend = Backend::kHier}, [&](Group g) {
        const auto error = error_of([&] {
          const std::vector<std::int32_t> part(n / 4);
          std::vector<std::int32_t> all(n);
          if (odd(g.rank())) g.all_gather(part, all);
          else sum(g, n);
        });
        ASSERT_TRUE(error);
        EXPECT_EQ(error->reason(), Reason::kMismatch) << error->what();
        EXPECT_NE(std::string(error->what()).find("called all_gather of"), std::string::npos) << error->what();
        EXPECT_NE(std::string(error->what()).find("called all_reduce of"), std::string::npos) << error->what();
        EXPECT_NE(std::string(error->what()).find(text), std::string::npos) << error->what();
      });
  };
  expect_mismatch([](int rank) { return rank == 3; }, "rank 3 called all_gather");
  expect_mismatch([](int rank) { return rank >= 2; }, "called all_gather");
}

// HCM-2: nobody is in an operation; what fails in a node's memory fails everywhere, and so does what fails on a socket.
TEST(HierTest, AFailureOfOnePartIsOneOfTheOther) {
  const Setting setting{.ranks = 4, .backend = Backend::kHier};
  for (const bool inside : {true, false}) {
    Founding founding(setting);
    std::vector<std::unique_ptr<Communicator>> ranks;
    for (int r = 0; r < 4; ++r) ranks.push_back(founding.communicator(r));
    const Failure failure{Reason::kBackend, "the end", {3}};
    if (inside) founding.segment()->fail(failure);
    else ranks[2]->fail(failure);
    for (auto& one : ranks) {
      std::optional<Failure> heard;
      while (!(heard = one->failure())) (void)one->wait_messages(Clock::now() + milliseconds(100), nullptr);
      EXPECT_EQ(heard->text, "the end");
      EXPECT_EQ(heard->reason, Reason::kBackend);
      EXPECT_EQ(heard->missing_ranks, std::vector{3}) << "a rank of the other node";
    }
    EXPECT_TRUE(founding.segment()->await_failure(std::chrono::seconds(30)));
  }
}

// HCM-2
TEST(HierTest, StaleOnOneNodeIsStaleOnAll) {
  const Setting setting{.ranks = 4, .backend = Backend::kHier};
  Founding founding(setting);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < 4; ++r) ranks.push_back(founding.communicator(r));
  founding.segment()->supersede(2);
  for (auto& one : ranks) {
    while (!one->failure()) (void)one->wait_messages(Clock::now() + milliseconds(100), nullptr);
    EXPECT_EQ(one->failure()->reason, Reason::kStale);
    EXPECT_TRUE(one->stale());
  }
}

// The children are of all kinds: over nodes, in one node, of a lone rank; and they end with their parent.
TEST(HierTest, ChildrenSpanNodesAndEndWithTheirParent) {
  on_threads({.ranks = 6, .backend = Backend::kHier, .nodes = {0, 1, 0, 1, 2, 0}}, [](Group g) {
    Group child = g.split(g.rank() == 4 ? 1 : 0, -g.rank());
    std::vector<std::int64_t> v(200'000, g.rank());
    child.all_reduce(v);
    EXPECT_EQ(v.back(), g.rank() == 4 ? 4 : 11);
    Group node = g.split(g.rank() % 2, 0);
    std::vector<int> w{1};
    node.all_reduce(w);
    EXPECT_EQ(w[0], 3);
    const auto error = error_of([&] {
      g.barrier();  // the others may still be in it
      if (g.rank() == 5) g.abort("enough");
      for (;;) child.barrier();
    });
    if (g.rank() == 4) return;
    ASSERT_TRUE(error);
    EXPECT_EQ(error->reason(), Reason::kAborted);
    EXPECT_NE(std::string(error->what()).find("enough"), std::string::npos) << error->what();
  });
}

// The leader of a node is killed while all wait for it.
TEST(HierTest, AKilledLeaderIsNamedOnAllNodes) {
  Processes ranks({.ranks = 5, .backend = Backend::kHier, .nodes = {0, 0, 1, 1, 2}}, [](Group g) {
    const auto error = error_of([&] {
      g.barrier();  // the others may still be in it
      if (g.rank() == 2) ::raise(SIGKILL);
      for (;;) sum(g, 200'000);
    });
    return error && error->reason() == Reason::kDied && error->missing_ranks() == std::vector{2} ? 0 : 1;
  });
  EXPECT_EQ(ranks.wait(2), 100 + SIGKILL);
  for (int r : {0, 1, 3, 4}) EXPECT_EQ(ranks.wait(r), 0) << "rank " << r;
}

// HCM-2, CFL-1: a rank that joins the sockets of a split and ends then is named as the group names it, not its part.
TEST(HierFaults, WhoEndsInASplitIsNamedInTheRanksOfTheGroup) {
  const Setting setting{.ranks = 6, .backend = Backend::kHier, .nodes = {0, 0, 0, 1, 1, 1}};
  Wires wires(setting);
  std::map<int, std::shared_ptr<ShmSegment>> segments;
  for (int node : {0, 1}) segments[node] = make_segment({.ranks = 3});
  std::promise<void> failed;
  const auto all_is_told = failed.get_future().share();
  const auto rank = [&](int number) {
    TcpOptions options{.key = 0x1234567};
    if (number == 5)
      options.connect = [&](TcpLinks& links, const Subgroup& subgroup, Clock::time_point deadline) {
        auto made = connect_subgroup(links, subgroup, deadline);
        EXPECT_TRUE(made.ok() && *made) << (made.ok() ? "the group failed before" : made.error().message());
        if (!made.ok() || !*made) return made;
        ::shutdown((*made)->data(0), SHUT_RDWR);  // as if it were killed; the group's sockets stay
        all_is_told.wait();
        return made;
      };
    HierCommunicator group(setting.nodes,
                           std::make_unique<ShmCommunicator>(segments.at(number / 3), number % 3),
                           std::make_unique<TcpCommunicator>(wires.links_of(number), std::move(options)));
    Patience patience(std::chrono::seconds(60), nullptr);
    const auto part = group.split(number % 3, number, patience);
    if (number % 3 != 2) {
      all_is_told.wait();
      return;
    }
    EXPECT_EQ(part, nullptr) << number;
    const auto failure = group.failure();
    if (number == 2) failed.set_value();
    ASSERT_TRUE(failure) << number;
    EXPECT_EQ(failure->reason, Reason::kDied) << failure->text;
    EXPECT_EQ(failure->missing_ranks, std::vector<int>{5}) << failure->text;
    EXPECT_NE(failure->text.find("for rank 5;"), std::string::npos) << failure->text;
  };
  std::vector<std::thread> threads;
  for (int number = 0; number < 6; ++number) threads.emplace_back(rank, number);
  for (auto& thread : threads) thread.join();
}

/// Rank 0 waits for who dials it, rank 1 for the answer of whom it dials; the other one fails the group meanwhile.
TEST(TcpSplit, TM5_WhoMakesItsSocketsWaitsNoLongerThanTheGroupLives) {
  for (const int waits : {0, 1}) {
    const Setting setting{.ranks = 2, .backend = Backend::kTcp};
    Wires wires(setting);
    std::optional<MeshListener> kept;
    const auto rank = [&](int number) {
      TcpOptions options{.key = 0x1234567};
      if (number != waits)
        options.connect = [&](TcpLinks& links, const Subgroup& subgroup,
                              Clock::time_point) -> Result<std::shared_ptr<TcpLinks>> {
          auto listener = MeshListener::open("127.0.0.1");
          std::vector<MeshAddress> all(2);
          EXPECT_TRUE(subgroup.exchange(&listener->address(), all.data(), sizeof(MeshAddress)));
          pollfd dialled{listener->fd(), POLLIN, 0};
          EXPECT_EQ(::poll(&dialled, 1, waits == 1 ? 60'000 : 0), waits);
          kept = *std::move(listener);  // nobody hangs up
          links.fail({Reason::kAborted, "enough", {}});
          return Error("given up");
        };
      TcpCommunicator group(wires.links_of(number), std::move(options));
      Patience patience(std::chrono::hours(1), nullptr);
      EXPECT_EQ(group.split(0, number, patience), nullptr);
      ASSERT_TRUE(group.failure());
      EXPECT_EQ(group.failure()->text, "enough") << "what the group was told first";
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
  }
}

}  // namespace
}  // namespace troupe::collective

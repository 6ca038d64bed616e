// Messages in a group on several nodes: between ranks of one node in memory, else on sockets; order, sizes, errors and
// deaths are those of every backend, also where a rank waits for both at once.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>

#include <atomic>
#include <map>
#include <new>
#include <random>

#include "tests/collective/ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;
using std::chrono::milliseconds;
using Words = std::vector<std::uint32_t>;

constexpr std::size_t kLarge = 3'000'000;  // many times what the ring of a pair holds, and a socket

Words words(int from, int to, int number, std::size_t n) {
  Words all(n);
  for (std::size_t i = 0; i < n; ++i)
    all[i] = std::uint32_t(from * 1'000'003 + to * 10'007 + number * 101) + std::uint32_t(i);
  return all;
}

std::optional<CollectiveError> error_of(const std::function<void()>& operation) {
  try {
    operation();
  } catch (const CollectiveError& error) {
    return error;
  }
  return std::nullopt;
}

/// The bytes that this pair's ring in the memory of node 0 has carried.
std::uint64_t carried(Founding& founding, int from, int to) {
  return founding.segment()->written(from, to).bytes.load();
}

TEST(HierMessagesTest, RanksOfANodeUseItsMemoryAndOthersDoNot) {
  const Setting setting{.ranks = 4, .backend = Backend::kHier, .nodes = {0, 1, 0, 1}};
  Founding founding(setting);
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {
      Group g = founding.member(r);
      const Words mine = words(r, 0, 0, 1000);
      for (int step = 1; step < 4; ++step) {
        Words got(1000);
        const int to = (r + step) % 4, from = (r + 4 - step) % 4;
        auto sent = g.send_async(mine, to);
        g.recv(got, from);
        sent.wait();
        EXPECT_EQ(got, words(from, 0, 0, 1000));
      }
    });
  for (auto& thread : threads) thread.join();
  const std::uint64_t one = carried(founding, 0, 1);  // ranks 0 and 2 of the group
  EXPECT_GE(one, 4000u);
  EXPECT_LT(one, 2 * 4000u) << "what goes to the other node is not among it";
  EXPECT_EQ(carried(founding, 1, 0), one);
}

// HCM-5, SM-1, TCS-3: everybody to everybody and itself, empty to large, tags and their order at random, all under way
// together.
TEST(HierMessagesTest, OfAPairAndTagTheyArriveInOrder) {
  constexpr int kMessages = 24, kTags = 3;
  for (unsigned seed = 1; seed <= 3; ++seed)
    on_threads({.ranks = 5, .backend = Backend::kHier, .nodes = {0, 1, 0, 1, 0}}, [seed](Group g) {
      struct One { int tag; std::size_t n; };
      const auto plan = [&](int from, int to) {  // both sides know it
        std::mt19937 random(seed * 1000 + unsigned(from) * 10 + unsigned(to));
        std::vector<One> all;
        for (int i = 0; i < kMessages; ++i)
          all.push_back({int(random() % kTags), random() % 4 == 0   ? 0
                                                : random() % 6 == 0 ? 200'000 + random() % 1000
                                                                    : random() % 3000});
        return all;
      };
      const int me = g.rank();
      std::vector<Work> works;
      std::vector<Words> out;
      out.reserve(std::size_t(5 * kMessages));
      struct Wanted { Words got, want; };
      std::vector<Wanted> in;
      in.reserve(std::size_t(5 * kMessages));
      for (int peer = 0; peer < 5; ++peer) {
        // The recvs by tag: the order of the sends is another.
        const auto from = plan(peer, me);
        for (int tag = 0; tag < kTags; ++tag)
          for (int i = 0; i < kMessages; ++i)
            if (from[std::size_t(i)].tag == tag) {
              in.push_back({Words(from[std::size_t(i)].n), words(peer, me, i, from[std::size_t(i)].n)});
              works.push_back(g.recv_async(in.back().got, peer, tag));
            }
      }
      for (int i = 0; i < kMessages; ++i)
        for (int peer = 0; peer < 5; ++peer) {
          const One one = plan(me, peer)[std::size_t(i)];
          out.push_back(words(me, peer, i, one.n));
          works.push_back(g.send_async(out.back(), peer, one.tag));
        }
      for (Work& work : works) work.wait();
      for (const Wanted& one : in) EXPECT_EQ(one.got, one.want);
      g.barrier();
    });
}

TEST(HierMessagesTest, LargeOnesBothWaysAndCollectivesBetween) {
  on_threads({.ranks = 4, .backend = Backend::kHier}, [](Group g) {
    const int me = g.rank();
    for (const int peer : {me ^ 1, me ^ 2, me ^ 1}) {
      const Words out = words(me, peer, 7, kLarge);
      Words in(kLarge);
      auto sent = g.send_async(out, peer);
      g.recv(in, peer);
      sent.wait();
      EXPECT_EQ(in, words(peer, me, 7, kLarge));
      std::vector<int> one{1};
      g.all_reduce(one);
      EXPECT_EQ(one[0], 4);
    }
  });
}

// HCM-5: rank 0 waits for a word from its node and one from the other; they come in turn, each after the answer to the
// one before, so that a wake that is lost costs its slice every time.
TEST(HierMessagesTest, ARankThatWaitsForBothPartsHearsBoth) {
  constexpr int kRounds = 600;
  on_threads({.ranks = 4, .backend = Backend::kHier, .nodes = {0, 0, 1, 1}}, [](Group g) {
    if (g.rank() == 3) return;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<int> a{0}, b{0}, word{round};
      if (g.rank() == 0) {
        const bool inside_first = round % 2 == 0;
        auto inside = g.recv_async(a, 1), across = g.recv_async(b, 2);
        g.send_async(word, inside_first ? 1 : 2).wait();
        (inside_first ? inside : across).wait();
        g.send_async(word, inside_first ? 2 : 1).wait();
        (inside_first ? across : inside).wait();
        ASSERT_EQ(a[0], round);
        ASSERT_EQ(b[0], round);
      } else {
        g.recv(a, 0);
        ASSERT_EQ(a[0], round);
        g.send(word, 0);
      }
    }
  });
}

// SM-2: the ranks are those of the group, not those of the node's memory.
TEST(HierMessagesTest, AMismatchNamesTheGroupsRanksOnAllNodes) {
  on_threads({.ranks = 4, .backend = Backend::kHier, .nodes = {0, 0, 1, 1}}, [](Group g) {
    const auto error = error_of([&] {
      std::vector<float> ten(10);
      std::vector<double> other(10);
      if (g.rank() == 2) g.send(ten, 3, 9);
      if (g.rank() == 3) g.recv(other, 2, 9);
      for (;;) g.barrier();
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->reason(), Reason::kMismatch) << error->what();
    EXPECT_NE(std::string(error->what()).find("rank 2 sent 10"), std::string::npos) << error->what();
    EXPECT_NE(std::string(error->what()).find("with tag 9, rank 3 wanted 10"), std::string::npos) << error->what();
  });
}

TEST(HierMessagesTest, ARecvOfItsNodeThatNobodyAnswersNamesThePeer) {
  on_threads({.ranks = 4, .timeout = milliseconds(500), .backend = Backend::kHier, .nodes = {0, 0, 1, 1}}, [](Group g) {
    if (g.rank() != 3) {
      const auto heard = error_of([&] {
        std::vector<int> word(1);
        for (;;) g.recv(word, 3, 0, {.timeout = std::chrono::seconds(60)});
      });
      ASSERT_TRUE(heard);
      EXPECT_EQ(heard->missing_ranks(), std::vector{2}) << heard->what();
      return;
    }
    const auto error = error_of([&] {
      std::vector<int> word(1);
      g.recv(word, 2);
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->reason(), Reason::kTimeout) << error->what();
    EXPECT_EQ(error->missing_ranks(), std::vector{2}) << error->what();
  });
}

TEST(HierMessagesTest, AnAbortEndsAWaitForBothParts) {
  on_threads({.ranks = 4, .backend = Backend::kHier, .nodes = {0, 0, 1, 1}}, [](Group g) {
    const auto error = error_of([&] {
      g.barrier();  // the others may still be in it
      if (g.rank() == 3) g.abort("enough");
      std::vector<int> a(1), b(1);
      auto one = g.recv_async(a, g.rank() ^ 1), two = g.recv_async(b, g.rank() ^ 2);
      one.wait();
    });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->reason(), Reason::kAborted) << error->what();
    EXPECT_NE(std::string(error->what()).find("enough"), std::string::npos) << error->what();
  });
}

// Killed when a part of its message is in the ring: who receives it, who waits for that one, and the other node hear
// who it was.
TEST(HierMessagesTest, ADeathDuringAMessageIsNamedOnAllNodes) {
  for (const bool sender_dies : {true, false}) {
    auto* const here =
        new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) std::atomic<int>(0);
    const int doomed = sender_dies ? 1 : 0;
    Processes ranks({.ranks = 4, .backend = Backend::kHier, .nodes = {0, 0, 1, 1}}, [here, doomed](Group g) {
      const auto error = error_of([&] {
        g.barrier();
        Words large = words(1, 0, 0, kLarge), first(1);
        here->fetch_add(1);
        if (g.rank() == 1) g.send(large, 0);
        // comes never: what comes goes to memory of its own
        else if (g.rank() == 0 && doomed == 0) g.recv(first, 1, 1);
        else if (g.rank() == 0) g.recv(first, 2);                    // nor this; the ring is full
        else g.recv(first, 0);
        for (;;) g.recv(first, doomed);
      });
      return error && error->reason() == Reason::kDied && error->missing_ranks() == std::vector{doomed} ? 0 : 1;
    });
    while (here->load() < 4) ::usleep(1000);
    ShmSegment& segment = ranks.segment();
    while (segment.written(1, 0).bytes.load() < (doomed == 1 ? segment.message_bytes() : 1u)) ::usleep(1000);
    ::kill(ranks.pid(doomed), SIGKILL);
    EXPECT_EQ(ranks.wait(doomed), 100 + SIGKILL);
    for (int r = 0; r < 4; ++r)
      if (r != doomed) {
        EXPECT_EQ(ranks.wait(r), 0) << "rank " << r;
      }
    ::munmap(here, 4096);
  }
}

}  // namespace
}  // namespace troupe::collective

// Every algorithm, carried out on simulated ranks: results, and the sanity of every step.
#include "collective/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <span>

namespace troupe::collective {
namespace {

/// Ranks that carry out their schedules in turns, each until it must wait. Messages of a pair arrive in order (CSD-1).
class Ranks {
 public:
  Ranks(int ranks, std::size_t count, const std::function<Schedule(Position)>& make)
      : ranks_(ranks), at_(std::size_t(ranks)), sent_(std::size_t(ranks)) {
    for (int r = 0; r < ranks; ++r) {
      schedules_.push_back(make({ranks, r}));
      data_.emplace_back(count);
      scratch_.emplace_back(schedules_.back().scratch);
    }
  }
  std::vector<std::uint64_t>& data(int rank) { return data_[std::size_t(rank)]; }
  std::size_t sent(int rank) const { return sent_[std::size_t(rank)]; }
  std::size_t steps(int rank) const { return schedules_[std::size_t(rank)].steps.size(); }

  /// False when it ends before all steps are done: a deadlock, or a step that is wrong (a failure is then reported).
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < ranks_; ++r)
        while (at_[std::size_t(r)] < steps(r) && carry_out(r, schedules_[std::size_t(r)].steps[at_[std::size_t(r)]]))
          ++at_[std::size_t(r)], moved = true;
    }
    for (int r = 0; r < ranks_; ++r)
      if (at_[std::size_t(r)] != steps(r)) return false;
    for (auto& [pair, messages] : mail_)
      if (!messages.empty()) return false;
    return true;
  }

 private:
  std::span<std::uint64_t> memory(int r, const Range& range) {
    // the input lies in place
    auto& all = range.memory == Memory::kScratch ? scratch_[std::size_t(r)] : data_[std::size_t(r)];
    if (range.begin > range.end || range.end > all.size()) {
      ADD_FAILURE() << "rank " << r << ": a range outside of its memory";
      return {};
    }
    return std::span(all).subspan(range.begin, range.size());
  }
  bool carry_out(int r, const Step& step) {
    const auto range = memory(r, step.range);
    if (step.kind == Step::Kind::kSend || step.kind == Step::Kind::kReceive)
      if (step.peer < 0 || step.peer >= ranks_ || step.peer == r) {
        ADD_FAILURE() << "rank " << r << ": peer " << step.peer;
        return false;
      }
    switch (step.kind) {
      case Step::Kind::kSend:
        mail_[{r, step.peer}].emplace_back(range.begin(), range.end());
        sent_[std::size_t(r)] += range.size();
        return true;
      case Step::Kind::kReceive: {
        auto& messages = mail_[{step.peer, r}];
        if (messages.empty()) return false;
        if (messages.front().size() != range.size()) {
          ADD_FAILURE() << "rank " << r << ": a message of another size from " << step.peer;
          return false;
        }
        std::ranges::copy(messages.front(), range.begin());
        messages.pop_front();
        return true;
      }
      case Step::Kind::kReduceAll: {
        for (std::size_t i = 0; i < range.size(); ++i) {
          std::uint64_t all = 0;
          for (int q = 0; q < ranks_; ++q) {
            const auto part = memory(r, q == r ? step.range
                                               : Range{step.from.memory, step.from.begin + std::size_t(q) * step.stride,
                                                       step.from.begin + std::size_t(q) * step.stride + range.size()});
            if (part.size() != range.size()) return false;
            all += part[i];
          }
          range[i] = all;
        }
        return true;
      }
      case Step::Kind::kReduce:
      case Step::Kind::kCopy: {
        const auto from = memory(r, step.from);
        if (from.size() != range.size()) { ADD_FAILURE() << "rank " << r << ": sizes differ"; return false; }
        for (std::size_t i = 0; i < range.size(); ++i)
          range[i] = (step.kind == Step::Kind::kReduce ? range[i] : 0) + from[i];
        return true;
      }
    }
    return false;
  }

  int ranks_;
  std::vector<Schedule> schedules_;
  std::vector<std::vector<std::uint64_t>> data_, scratch_;
  std::vector<std::size_t> at_, sent_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::uint64_t>>> mail_;
};

std::uint64_t element(int rank, std::size_t i) { return (std::uint64_t(rank) * 1'000'003 + 17) * (i + 1); }
std::uint64_t sum(int ranks, std::size_t i) {
  std::uint64_t all = 0;
  for (int r = 0; r < ranks; ++r) all += element(r, i);
  return all;
}
void fill(Ranks& ranks, int n) {
  for (int r = 0; r < n; ++r)
    for (std::size_t i = 0; i < ranks.data(r).size(); ++i) ranks.data(r)[i] = element(r, i);
}

std::vector<int> rank_counts() {
  std::vector<int> all(33);
  std::iota(all.begin(), all.end(), 1);
  all.insert(all.end(), {64, 100});
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  all.push_back(1024);  // minutes under a sanitizer, which finds nothing there that it does not find at 100
#endif
  return all;
}
std::vector<std::size_t> sizes(int n) {
  return n > 100 ? std::vector<std::size_t>{1500} : std::vector<std::size_t>{0, 1, 5, 97};
}

class ScheduleTest : public ::testing::TestWithParam<int> {};

TEST_P(ScheduleTest, AllReduceGivesTheSumToEveryRank) {
  const int n = GetParam();
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kRecursiveDoubling, Algorithm::kHalvingDoubling,
                              Algorithm::kDirect, Algorithm::kOneShot})
    for (std::size_t count : sizes(n)) {
      if (algorithm == Algorithm::kOneShot && n > 100) continue;  // n * n messages with all the data: gigabytes
      Ranks ranks(n, count, [&](Position p) { return all_reduce_schedule(algorithm, p, count); });
      fill(ranks, n);
      ASSERT_TRUE(ranks.run()) << "algorithm " << int(algorithm) << ", " << count
                               << " elements: not all steps were carried out";
      std::vector<std::uint64_t> want(count);
      for (std::size_t i = 0; i < count; ++i) want[i] = sum(n, i);
      for (int r = 0; r < n; ++r) ASSERT_EQ(ranks.data(r), want) << "algorithm " << int(algorithm) << ", rank " << r;
      // no more on the wire than the formula says: 2 (n - 1) / n of the data, and shares that differ by one element
      if (algorithm == Algorithm::kRing || algorithm == Algorithm::kDirect) {
        for (int r = 0; r < n; ++r)
          EXPECT_LE(ranks.sent(r), 2 * std::size_t(n - 1) * ((count + std::size_t(n) - 1) / std::size_t(n)));
      }
    }
}

// Pieces of every size, also such that the last is smaller and some ranks have none.
TEST_P(ScheduleTest, DirectInPiecesGivesTheSame) {
  const int n = GetParam();
  if (n > 100) return;
  for (std::size_t piece : {std::size_t(1), std::size_t(3), std::size_t(64)})
    for (std::size_t count : sizes(n)) {
      Ranks ranks(n, count, [&](Position p) { return direct_schedule(p, count, {.piece = piece}); });
      fill(ranks, n);
      ASSERT_TRUE(ranks.run()) << count << " elements in pieces of " << piece;
      const int root = n / 2;
      Ranks to_root(n, count, [&](Position p) { return direct_schedule(p, count, {.result = root, .piece = piece}); });
      fill(to_root, n);
      ASSERT_TRUE(to_root.run());
      Ranks shares(n, count, [&](Position p) {
        return direct_schedule(p, count, {.result = DirectOptions::kShares, .piece = piece});
      });
      fill(shares, n);
      ASSERT_TRUE(shares.run());
      for (int r = 0; r < n; ++r)
        for (std::size_t i = share({n, r}, count).begin; i < share({n, r}, count).end; ++i)
          ASSERT_EQ(shares.data(r)[i], sum(n, i));
      for (std::size_t i = 0; i < count; ++i) {
        for (int r = 0; r < n; ++r) ASSERT_EQ(ranks.data(r)[i], sum(n, i));
        ASSERT_EQ(to_root.data(root)[i], sum(n, i));
      }
    }
}

TEST_P(ScheduleTest, ScatteredBroadcastServesEveryRoot) {
  const int n = GetParam();
  for (int root = 0; root < n; root += n > 33 ? 31 : 1)
    for (std::size_t count : {std::size_t(0), std::size_t(5), std::size_t(97)}) {
      if (n > 100 && root != 0) break;
      Ranks down(n, count, [&](Position p) { return scattered_broadcast_schedule(p, root, count); });
      fill(down, n);
      ASSERT_TRUE(down.run());
      for (int r = 0; r < n; ++r)
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(down.data(r)[i], element(root, i));
    }
}

TEST_P(ScheduleTest, ABroadcastServesEveryRoot) {
  const int n = GetParam();
  for (int root = 0; root < n; root += n > 33 ? 31 : 1) {
    Ranks down(n, 3, [&](Position p) { return broadcast_schedule(p, root, 3); });
    fill(down, n);
    ASSERT_TRUE(down.run());
    for (int r = 0; r < n; ++r)
      for (std::size_t i = 0; i < 3; ++i) ASSERT_EQ(down.data(r)[i], element(root, i));
    for (int r = 0; r < n; ++r) EXPECT_LE(down.steps(r), 1 + std::size_t(std::bit_width(unsigned(n))));
  }
}

TEST_P(ScheduleTest, BarrierTakesLogarithmicallyManyRounds) {
  const int n = GetParam();
  Ranks ranks(n, 0, [](Position p) { return barrier_schedule(p); });
  EXPECT_TRUE(ranks.run());
  EXPECT_EQ(ranks.steps(0), 2 * std::size_t(std::bit_width(unsigned(n - 1))));
}

INSTANTIATE_TEST_SUITE_P(Ranks, ScheduleTest, ::testing::ValuesIn(rank_counts()));

}  // namespace
}  // namespace troupe::collective

// Every operation on every type, against plain loops: ranks as threads and as processes, odd sizes, memory that is not
// aligned, in place and out of place.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/reduce/reduce.h"
#include "tests/collective/ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;

template <class T> T element(int rank, std::size_t i) { return T(float(1 + (std::size_t(rank) * 7 + i * 3) % 5)); }

/// Memory of n elements that begins `skew` elements after an aligned place (T's own alignment is all that is promised).
template <class T> class Data {
 public:
  Data(std::size_t n, std::size_t skew) : all_(n + skew), skew_(skew) {}
  std::span<T> span() { return std::span(all_).subspan(skew_); }
  T& operator[](std::size_t i) { return all_[i + skew_]; }
  std::size_t size() const { return all_.size() - skew_; }
  void fill(int rank, std::size_t offset = 0) {
    for (std::size_t i = 0; i < size(); ++i) (*this)[i] = element<T>(rank, i + offset);
  }
  bool operator==(Data& other) {
    return size() == other.size() &&
           (size() == 0 || std::memcmp(span().data(), other.span().data(), size() * sizeof(T)) == 0);
  }

 private:
  std::vector<T> all_;
  std::size_t skew_;
};

/// What all ranks make of element i, in rank order, by the kernels' reference.
template <class T> Data<T> expected(int ranks, Op op, std::size_t n, std::size_t offset = 0) {
  std::vector<Data<T>> in;
  std::vector<const void*> pointers;
  for (int r = 0; r < ranks; ++r) in.emplace_back(n, 0), in.back().fill(r, offset);
  for (auto& one : in) pointers.push_back(one.span().data());
  Data<T> out(n, 0);
  kernels::reduce(kernels::Isa::kReference, out.span().data(), pointers, n, kernels::dtype_of<T>(),
                  {kernels::ReduceOp(op.kind()), op.scale(), ranks, false});
  return out;
}

struct Case { std::size_t n, skew; };

/// Equal bits; products of 16-bit floats that are rounded once a node (HCM-4) are near.
template <class T> bool as_wanted(Group& g, Op op, Data<T>& got, Data<T>& want) {
  constexpr bool kHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;
  if constexpr (kHalf) {
    if (g.backend() == Backend::kHier && op == Op(Op::kProduct)) {
      bool near = got.size() == want.size();
      for (std::size_t i = 0; near && i < got.size(); ++i)
        near = std::abs(float(got[i]) - float(want[i])) <= float(want[i]) / 64;
      return near;
    }
  }
  return got == want;
}

/// The names of what was wrong on this rank.
template <class T> std::string check_reductions(Group g, Case c) {
  const int me = g.rank(), ranks = g.size();
  std::string wrong;
  for (Op op : {Op(Op::kSum), Op(Op::kProduct), Op(Op::kMin), Op(Op::kMax), Op(Op::kAvg), Op::pre_mul_sum(0.5)}) {
    const auto note = [&](bool ok, const char* what) {
      if (!ok) wrong += std::string(what) + "/" + std::to_string(int(op)) + "/" + std::to_string(c.n) + " ";
    };
    Data<T> want = expected<T>(ranks, op, c.n), in(c.n, c.skew), out(c.n, c.skew + 1);
    in.fill(me);
    g.all_reduce(in.span(), out.span(), op);
    note(as_wanted(g, op, out, want), "all_reduce");
    g.all_reduce(in.span(), op);
    note(as_wanted(g, op, in, want), "all_reduce in place");
    in.fill(me);
    const int root = int(c.n) % ranks;
    g.reduce(in.span(), out.span(), root, op);
    note(me != root || as_wanted(g, op, out, want), "reduce");
    Data<T> whole(c.n * std::size_t(ranks), c.skew), part(c.n, c.skew);
    whole.fill(me);
    g.reduce_scatter(whole.span(), part.span(), op);
    Data<T> share = expected<T>(ranks, op, c.n, c.n * std::size_t(me));
    note(as_wanted(g, op, part, share), "reduce_scatter");
    g.reduce_scatter(whole.span(), whole.span().subspan(c.n * std::size_t(me), c.n), op);
    Data<T> own(c.n, 0);
    std::ranges::copy(whole.span().subspan(c.n * std::size_t(me), c.n), own.span().begin());
    note(as_wanted(g, op, own, share), "reduce_scatter in place");
  }
  return wrong;
}

template <class T> std::string check_moves(Group g, Case c) {
  const int me = g.rank(), ranks = g.size();
  const auto n = c.n, all = n * std::size_t(ranks);
  std::string wrong;
  const auto note = [&](bool ok, const char* what) {
    if (!ok) wrong += std::string(what) + "/" + std::to_string(c.n) + " ";
  };
  const int root = int(n + 1) % ranks;
  Data<T> data(n, c.skew), from_root(n, 0), mine(n, c.skew), joined(all, c.skew), want(all, 0);
  data.fill(me);
  from_root.fill(root);
  g.broadcast(data.span(), root);
  note(data == from_root, "broadcast");
  mine.fill(me);
  for (int r = 0; r < ranks; ++r) for (std::size_t i = 0; i < n; ++i) want[std::size_t(r) * n + i] = element<T>(r, i);
  g.all_gather(mine.span(), joined.span());
  note(joined == want, "all_gather");
  Data<T> collected(me == root ? all : 0, c.skew);
  g.gather(mine.span(), collected.span(), root);
  note(me != root || collected == want, "gather");
  Data<T> one(n, c.skew);
  g.scatter(me == root ? want.span() : std::span<T>(), one.span(), root);
  note(one == mine, "scatter");
  Data<T> out(all, c.skew), in(all, c.skew + 1), mixed(all, 0);
  out.fill(me);
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < n; ++i) mixed[std::size_t(r) * n + i] = element<T>(r, std::size_t(me) * n + i);
  g.all_to_all(out.span(), in.span());
  note(in == mixed, "all_to_all");
  // parts of different sizes: rank r has n + r elements, and sends i + r of them to rank i
  std::vector<std::size_t> counts, send, receive;
  std::size_t total = 0;
  for (int r = 0; r < ranks; ++r) counts.push_back(n + std::size_t(r)), total += counts.back();
  Data<T> own(counts[std::size_t(me)], c.skew), joined_v(total, c.skew), want_v(total, 0);
  own.fill(me);
  for (std::size_t r = 0, at = 0; r < counts.size(); ++r)
    for (std::size_t i = 0; i < counts[r]; ++i) want_v[at++] = element<T>(int(r), i);
  g.all_gather_v(own.span(), joined_v.span(), counts);
  note(joined_v == want_v, "all_gather_v");
  Data<T> gathered(me == root ? total : 0, 0), scattered(counts[std::size_t(me)], c.skew);
  g.gather_v(own.span(), gathered.span(), counts, root);
  note(me != root || gathered == want_v, "gather_v");
  g.scatter_v(me == root ? want_v.span() : std::span<T>(), scattered.span(), counts, root);
  note(scattered == own, "scatter_v");
  for (int r = 0; r < ranks; ++r) send.push_back(n % 50 + std::size_t(r)), receive.push_back(n % 50 + std::size_t(me));
  const auto sum = [](const std::vector<std::size_t>& v) { std::size_t s = 0; for (auto x : v) s += x; return s; };
  Data<T> out_v(sum(send), 0), in_v(sum(receive), 0), want_a(sum(receive), 0);
  out_v.fill(me);
  for (std::size_t r = 0, at = 0; r < std::size_t(ranks); ++r)
    for (std::size_t i = 0; i < receive[r]; ++i) {
      std::size_t offset = 0;
      for (int q = 0; q < me; ++q) offset += n % 50 + std::size_t(q);
      want_a[at++] = element<T>(int(r), offset + i);
    }
  g.all_to_all_v(out_v.span(), send, in_v.span(), receive);
  note(in_v == want_a, "all_to_all_v");
  // round the ring, two tags, received in the other order
  Data<T> a(n, 0), b(n, 0);
  auto first = g.send_async(mine.span(), (me + 1) % ranks, 5), second = g.send_async(data.span(), (me + 1) % ranks, 6);
  g.recv(b.span(), (me + ranks - 1) % ranks, 6);
  g.recv(a.span(), (me + ranks - 1) % ranks, 5);
  first.wait();
  second.wait();
  mine.fill((me + ranks - 1) % ranks);
  note(a == mine && b == from_root, "send and recv");
  g.barrier();
  return wrong;
}

std::vector<Case> cases(int ranks) {
  std::vector<Case> all{{0, 0}, {1, 0}, {3, 1}, {13, 3}, {1000, 1}, {70'001, 1}};
  if (ranks <= 3) all.push_back({300'007, 1});
  return all;
}

template <class T> std::string check_type(Group g) {
  std::string wrong;
  for (const Case& c : cases(g.size())) wrong += check_reductions<T>(g, c) + check_moves<T>(g, c);
  return wrong;
}
std::string check_edges(Group g) {
  std::string wrong;
  for (std::size_t n : {std::size_t(15), std::size_t(1000), std::size_t(1025), std::size_t(3001)})
    wrong += check_reductions<float>(g, {n, 1}) + check_moves<float>(g, {n, 1});
  return wrong;
}

using Check = std::string (*)(Group);
struct Type { const char* name; Check check; };
const Type kTypes[] = {{"double", &check_type<double>},      {"float", &check_type<float>},
                       {"float16", &check_type<float16>},    {"bfloat16", &check_type<bfloat16>},
                       {"int8", &check_type<std::int8_t>},   {"uint8", &check_type<std::uint8_t>},
                       {"int32", &check_type<std::int32_t>}, {"uint32", &check_type<std::uint32_t>},
                       {"int64", &check_type<std::int64_t>}, {"uint64", &check_type<std::uint64_t>}};

struct Param {
  int ranks;
  Backend backend;
  const char* nodes = "";  // of kHier: a letter for the node of each rank
  bool deterministic = false;
};
class OperationsTest : public ::testing::TestWithParam<Param> {
 protected:
  static int ranks() { return GetParam().ranks; }
  static Setting setting() {
    const std::string nodes = GetParam().nodes;
    return {.ranks = ranks(),
            .backend = GetParam().backend,
            .deterministic = GetParam().deterministic,
            .nodes = std::vector<int>(nodes.begin(), nodes.end())};
  }
};
class TypesTest : public OperationsTest {};
class OverBackends : public ::testing::TestWithParam<Backend> {
 protected:
  static Backend backend() { return GetParam(); }
};
class AsyncTest : public OverBackends {};
class SplitTest : public OverBackends {};
class DeterminismTest : public OverBackends {};

// SHC-1, SM-1, GR-1
TEST_P(TypesTest, EveryOperationOnEveryTypeEqualsThePlainLoopForThreads) {
  for (const Type& type : kTypes) {
    std::vector<std::string> wrong(static_cast<std::size_t>(ranks()));
    on_threads(setting(), [&](Group g) {
      try {
        wrong[std::size_t(g.rank())] = type.check(g);
      } catch (const std::exception& error) {
        wrong[std::size_t(g.rank())] = error.what();
      }
    });
    for (const auto& text : wrong) EXPECT_EQ(text, "") << type.name;
  }
}

TEST_P(OperationsTest, EveryOperationEqualsThePlainLoopForProcesses) {
  const auto body = [](Group g) {
    const std::string wrong = check_type<float>(g) + check_type<bfloat16>(g);
    if (!wrong.empty()) std::fprintf(stderr, "rank %d: %s\n", g.rank(), wrong.c_str());
    return wrong.empty() ? 0 : 1;
  };
  Processes all(setting(), body);
  for (int r = 0; r < ranks(); ++r) EXPECT_EQ(all.wait(r), 0) << "rank " << r;
}

// A small slot makes many rounds of few elements: every edge of chunks and shares is met.
TEST_P(OperationsTest, SmallSlotsGiveTheSameBits) {
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks()));
  Setting small = setting();
  small.slot_bytes = 4096;
  on_threads(small, [&](Group g) { wrong[std::size_t(g.rank())] = check_edges(g); });
  for (const auto& text : wrong) EXPECT_EQ(text, "");
}

std::string name_of(const ::testing::TestParamInfo<Param>& info) {
  const Param& p = info.param;
  return (p.backend == Backend::kShm   ? "shm"
          : p.backend == Backend::kTcp ? "tcp"
                                       : "hier_") +
         (*p.nodes ? std::string(p.nodes) : std::to_string(p.ranks)) + (p.deterministic ? "_in_order" : "");
}
const auto kShm = ::testing::Values(Param{1, Backend::kShm}, Param{2, Backend::kShm}, Param{3, Backend::kShm},
                                    Param{4, Backend::kShm}, Param{7, Backend::kShm});
const auto kTcp = ::testing::Values(Param{1, Backend::kTcp}, Param{2, Backend::kTcp}, Param{3, Backend::kTcp},
                                    Param{5, Backend::kTcp});
INSTANTIATE_TEST_SUITE_P(Shm, OperationsTest, kShm, name_of);
INSTANTIATE_TEST_SUITE_P(Shm, TypesTest, kShm, name_of);
INSTANTIATE_TEST_SUITE_P(Tcp, OperationsTest, kTcp, name_of);
INSTANTIATE_TEST_SUITE_P(Tcp, TypesTest, kTcp, name_of);
// HCM-1, HCM-4: equal nodes, unequal nodes, ranks of a node apart from each other, a node alone, every rank alone.
// Types are the business of the two parts; here they meet the three ways to reduce.
INSTANTIATE_TEST_SUITE_P(Hier, OperationsTest,
                         ::testing::Values(Param{1, Backend::kHier, "a"}, Param{2, Backend::kHier, "ab"},
                                           Param{2, Backend::kHier, "aa"}, Param{3, Backend::kHier, "aba"},
                                           Param{4, Backend::kHier, "aabb"}, Param{4, Backend::kHier, "aaab"},
                                           Param{4, Backend::kHier, "abba", true}, Param{5, Backend::kHier, "aabbc"},
                                           Param{5, Backend::kHier, "abcba", true}, Param{6, Backend::kHier, "abcabc"}),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Hier, TypesTest,
                         ::testing::Values(Param{3, Backend::kHier, "aba"}, Param{4, Backend::kHier, "abab"},
                                           Param{4, Backend::kHier, "abba", true}),
                         name_of);

// GR-1: many under way at once, waited for in another order, with a blocking one behind them.
TEST_P(AsyncTest, ManyUnderWayFinishInOrder) {
  on_threads({.ranks = 3, .backend = backend()}, [](Group g) {
    std::vector<std::vector<float>> data;
    for (int k = 0; k < 16; ++k) data.emplace_back(10'000 + 5000 * k, float(g.rank() + k));
    std::vector<Work> works;
    for (auto& one : data) works.push_back(g.all_reduce_async(one));
    g.barrier();
    for (int k = 15; k >= 0; --k) {
      EXPECT_TRUE(works[std::size_t(k)].done()) << "a blocking operation runs behind the asynchronous ones";
      EXPECT_TRUE(works[std::size_t(k)].wait());
      EXPECT_EQ(data[std::size_t(k)].back(), float(3 + 3 * k));
    }
  });
}

TEST_P(AsyncTest, WaitWithATimeoutStopsWaitingOnly) {
  std::atomic<bool> waited = false;
  on_threads({.ranks = 2, .backend = backend()}, [&waited](Group g) {
    std::vector<std::int32_t> data(5, g.rank() + 1);
    if (g.rank() == 0) {
      Work work = g.all_reduce_async(data);
      EXPECT_FALSE(work.wait(std::chrono::milliseconds(20)));
      waited = true;
      waited.notify_one();
      g.send(std::vector<int>{1}, 1);  // queued behind: GMB-2 lets it go only when the reduction is done
      EXPECT_TRUE(work.wait());
    } else {
      waited.wait(false);
      g.all_reduce(data);
      std::vector<int> got(1);
      g.recv(got, 0);
    }
    EXPECT_EQ(data[4], 3);
  });
}

TEST_P(AsyncTest, LargeMessagesBothWaysAtOnce) {
  on_threads({.ranks = 2, .backend = backend()}, [](Group g) {
    std::vector<std::int64_t> out(3'000'000, g.rank() + 1), in(out.size());
    auto sent = g.send_async(out, 1 - g.rank());
    g.recv(in, 1 - g.rank());
    sent.wait();
    EXPECT_EQ(in.front(), 2 - g.rank());
    EXPECT_EQ(in.back(), 2 - g.rank());
  });
}

TEST_P(SplitTest, GroupsWithinAGroup) {
  on_threads({.ranks = 5, .backend = backend()}, [](Group g) {
    Group half = g.split(g.rank() % 2, -g.rank());
    std::vector<std::int64_t> v{g.rank()};
    half.all_reduce(v);
    EXPECT_EQ(v[0], g.rank() % 2 ? 4 : 6);
    EXPECT_EQ(half.size(), g.rank() % 2 ? 2 : 3);
    EXPECT_EQ(half.rank(), g.rank() % 2 ? (g.rank() == 3 ? 0 : 1) : (4 - g.rank()) / 2);
    Group none = g.split(g.rank() == 0 ? -1 : 1, 0);
    if (g.rank() == 0) EXPECT_THROW((void)none.size(), InvalidArgumentError);
    else EXPECT_EQ(none.size(), 4);
  });
}

// SHC-1, TCM-1, HCM-4: whatever the size, an element's bits depend on the inputs alone.
TEST_P(DeterminismTest, AllPathsGiveEqualBits) {
  on_threads({.ranks = 3, .backend = backend(), .deterministic = true}, [](Group g) {
    std::mt19937 random(unsigned(g.rank()) + 1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> base(3 * 400'000);
    for (float& x : base) x = uniform(random);
    std::vector<float> whole = base;
    g.all_reduce(whole);
    for (std::size_t n : {std::size_t(1), std::size_t(9), std::size_t(5000), std::size_t(100'000)}) {
      std::vector<float> part(base.begin(), base.begin() + std::ptrdiff_t(n));
      g.all_reduce(part);
      EXPECT_EQ(std::memcmp(part.data(), whole.data(), n * sizeof(float)), 0) << n;
    }
    std::vector<float> share(400'000);
    g.reduce_scatter(base, share);
    EXPECT_EQ(std::memcmp(share.data(), whole.data() + 400'000 * g.rank(), share.size() * sizeof(float)), 0);
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, AsyncTest, ::testing::Values(Backend::kShm, Backend::kTcp, Backend::kHier));
INSTANTIATE_TEST_SUITE_P(Backends, SplitTest, ::testing::Values(Backend::kShm, Backend::kTcp, Backend::kHier));
INSTANTIATE_TEST_SUITE_P(Backends, DeterminismTest, ::testing::Values(Backend::kShm, Backend::kTcp, Backend::kHier));

}  // namespace
}  // namespace troupe::collective

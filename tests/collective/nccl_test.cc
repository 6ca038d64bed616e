// Every operation of the nccl backend on every type, in device memory and in the host's, against a group in shared
// memory; the order of launches, streams, split, messages. Over fakes: gpu_ranks.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <numeric>

#include "tests/collective/gpu_ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;

template <class T> std::vector<T> values(int rank, std::size_t n) {
  std::vector<T> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = T(float(1 + (std::size_t(rank) * 7 + i * 3) % 5));
  return out;
}

/// Both groups do the same; the result of the one is compared with that of the other.
template <class T> class Twins {
 public:
  Twins(Group& gpus, Group& cpus, GpuDevice& device, bool on_gpu)
      : gpus_(gpus), cpus_(cpus), device_(device), on_gpu_(on_gpu) {}

  /// operation(group, in, out); `matters`: is the output of this rank a result?
  template <class F> void compare(const char* what, std::size_t in, std::size_t out, bool matters, F operation) {
    const std::vector<T> given = values<T>(gpus_.rank(), in);
    std::vector<T> want(out), got(out), input = given;
    operation(cpus_, std::span<T>(input), std::span<T>(want));
    input = given;
    if (on_gpu_) {
      OnGpu<T> from(device_, input), to(device_, out);
      operation(gpus_, from.span(), to.span());
      got.assign(to.span().begin(), to.span().end());
    } else {
      operation(gpus_, std::span<T>(input), std::span<T>(got));
    }
    if (matters && out != 0 && std::memcmp(want.data(), got.data(), out * sizeof(T)) != 0)
      wrong_ += std::string(what) + "/" + std::to_string(in) + " ";
  }
  const std::string& wrong() const { return wrong_; }

 private:
  Group &gpus_, &cpus_;
  GpuDevice& device_;
  bool on_gpu_;
  std::string wrong_;
};

template <class T> void reductions(Twins<T>& twins, int ranks, int me, std::size_t n) {
  const auto all = n * std::size_t(ranks);
  for (Op op : {Op(Op::kSum), Op(Op::kProduct), Op(Op::kMin), Op(Op::kMax), Op(Op::kAvg), Op::pre_mul_sum(0.5),
                Op::pre_mul_sum(3)}) {
    twins.compare("all_reduce", n, n, true, [&](Group& g, auto in, auto out) { g.all_reduce(in, out, op); });
    twins.compare("all_reduce in place", n, n, true, [&](Group& g, auto in, auto out) {
      std::ranges::copy(in, out.begin());
      g.all_reduce(out, op);
    });
    twins.compare("reduce", n, n, me == ranks - 1,
                  [&](Group& g, auto in, auto out) { g.reduce(in, out, ranks - 1, op); });
    twins.compare("reduce_scatter", all, n, true, [&](Group& g, auto in, auto out) { g.reduce_scatter(in, out, op); });
    twins.compare("reduce_scatter in place", all, n, true, [&](Group& g, auto in, auto out) {
      const auto own = in.subspan(n * std::size_t(me), n);
      g.reduce_scatter(in, own, op);
      std::ranges::copy(own, out.begin());
    });
  }
}

template <class T> void moves(Twins<T>& twins, int ranks, int me, std::size_t n) {
  const auto all = n * std::size_t(ranks);
  const int root = ranks / 2;
  const bool is_root = me == root;
  using Span = std::span<T>;
  twins.compare("broadcast", n, n, true, [&](Group& g, auto in, auto out) {
    std::ranges::copy(in, out.begin());
    g.broadcast(out, root);
  });
  twins.compare("all_gather", n, all, true, [&](Group& g, auto in, auto out) { g.all_gather(in, out); });
  twins.compare("all_gather in place", n, all, true, [&](Group& g, auto in, auto out) {
    const auto own = out.subspan(n * std::size_t(me), n);
    std::ranges::copy(in, own.begin());
    g.all_gather(own, out);
  });
  twins.compare("gather", n, all, is_root,
                [&](Group& g, auto in, auto out) { g.gather(in, is_root ? out : Span(), root); });
  twins.compare("scatter", all, n, true,
                [&](Group& g, auto in, auto out) { g.scatter(is_root ? in : Span(), out, root); });
  twins.compare("all_to_all", all, all, true, [&](Group& g, auto in, auto out) { g.all_to_all(in, out); });
  // parts of different sizes, one of them of none: rank r has r * n elements
  std::vector<std::size_t> counts, send, receive;
  for (int r = 0; r < ranks; ++r)
    counts.push_back(n * std::size_t(r)), send.push_back(n % 50 + std::size_t(r)),
        receive.push_back(n % 50 + std::size_t(me));
  const auto sum = [](const std::vector<std::size_t>& v) {
    return std::accumulate(v.begin(), v.end(), std::size_t(0));
  };
  const std::size_t own = counts[std::size_t(me)], total = sum(counts);
  twins.compare("all_gather_v", own, total, true,
                [&](Group& g, auto in, auto out) { g.all_gather_v(in, out, counts); });
  twins.compare("gather_v", own, total, is_root,
                [&](Group& g, auto in, auto out) { g.gather_v(in, is_root ? out : Span(), counts, root); });
  twins.compare("scatter_v", total, own, true,
                [&](Group& g, auto in, auto out) { g.scatter_v(is_root ? in : Span(), out, counts, root); });
  twins.compare("all_to_all_v", sum(send), sum(receive), true,
                [&](Group& g, auto in, auto out) { g.all_to_all_v(in, send, out, receive); });
  // round the ring, two tags, received in the other order
  twins.compare("send and recv", n, n, true, [&](Group& g, auto in, auto out) {
    const int next = (me + 1) % ranks, before = (me + ranks - 1) % ranks;
    auto first = g.send_async(in, next, 5), second = g.send_async(in, next, 6);
    g.recv(out, before, 6);
    g.recv(out, before, 5);
    first.wait();
    second.wait();
  });
}

using Sizes = std::vector<std::size_t>;
template <class T>
std::string all_operations(Group gpus, Group cpus, GpuDevice& device, const Sizes& sizes,
                           std::initializer_list<bool> on_gpus) {
  std::string wrong;
  for (bool on_gpu : on_gpus) {
    Twins<T> twins(gpus, cpus, device, on_gpu);
    for (std::size_t n : sizes) {
      reductions(twins, gpus.size(), gpus.rank(), n);
      moves(twins, gpus.size(), gpus.rank(), n);
    }
    wrong += twins.wrong();
  }
  return wrong;
}

class NcclOperations : public OnFakes, public ::testing::WithParamInterface<int> {
 protected:
  template <class T>
  static void check(const char* type, const Sizes& sizes, std::initializer_list<bool> on_gpus = {true}) {
    const int ranks = GetParam();
    GpuFounding founding({.ranks = ranks});
    const Setting cpu_setting{.ranks = ranks};
    const auto segment = make_segment(cpu_setting);
    on_ranks(ranks, [&](int rank, const std::shared_ptr<GpuDevice>& device) {
      EXPECT_EQ(all_operations<T>(founding.member(rank, device),
                                  group_of(std::make_unique<ShmCommunicator>(segment, rank), cpu_setting), *device,
                                  sizes, on_gpus),
                "")
          << type << ", rank " << rank;
    });
  }
};

// SHC-1, GR-1, NC-1, CM-3: all operations, in place and not, in device memory and the host's; all types with three
// ranks.
TEST_P(NcclOperations, EqualThoseInSharedMemory) {
  check<float>("float", {0, 1, 4099}, {true, false});
  if (GetParam() != 3) return;
  check<double>("double", {33});
  check<float16>("float16", {33});
  check<bfloat16>("bfloat16", {33});
  check<std::int8_t>("int8", {33});
  check<std::uint8_t>("uint8", {33});
  check<std::int32_t>("int32", {33});
  check<std::uint32_t>("uint32", {33});
  check<std::int64_t>("int64", {33});
  check<std::uint64_t>("uint64", {33});
}
INSTANTIATE_TEST_SUITE_P(Ranks, NcclOperations, ::testing::Values(1, 2, 3));

class NcclTest : public OnFakes {};

// Host memory of more than one piece of pinned memory, at no particular address.
TEST_F(NcclTest, LargeHostMemoryIsStagedInPieces) {
  on_gpus({.ranks = 2}, [](Group g, GpuDevice&) {
    std::vector<std::uint8_t> data(3'500'001);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = std::uint8_t(i * 7 + std::size_t(g.rank()));
    g.all_reduce(std::span(data).subspan(1));
    for (std::size_t i = 1; i < data.size(); ++i) ASSERT_EQ(data[i], std::uint8_t(2 * (i * 7) + 1)) << i;
  });
}

// GR-1, GMB-5, CLA-1: many under way, a blocking one and a barrier behind them.
TEST_F(NcclTest, ManyUnderWayFinishInOrder) {
  on_gpus({.ranks = 3}, [](Group g, GpuDevice& device) {
    std::vector<std::unique_ptr<OnGpu<float>>> data;
    std::vector<Work> works;
    for (int k = 0; k < 100; ++k) {  // more than are handed over at once
      data.push_back(
          std::make_unique<OnGpu<float>>(device, std::vector<float>(std::size_t(100 + k), float(g.rank() + k))));
      works.push_back(g.all_reduce_async(data.back()->span()));
    }
    g.barrier();
    for (int k = 99; k >= 0; --k) {
      EXPECT_TRUE(works[std::size_t(k)].done()) << "a barrier comes behind the asynchronous ones";
      EXPECT_TRUE(works[std::size_t(k)].wait());
      EXPECT_EQ((*data[std::size_t(k)])[0], float(3 + 3 * k));
    }
  });
}

// 10.63: the operation comes behind what the user's stream had to do, and what is put on a stream after wait_on comes
// behind it.
TEST_F(NcclTest, StreamsAreOrderedWithoutTheHost) {
  on_gpus({.ranks = 2}, [](Group g, GpuDevice& device) {
    const CudaApi& cuda = device.cuda();
    void *before = nullptr, *after = nullptr;
    ASSERT_EQ(cuda.stream_create(&before), 0);
    ASSERT_EQ(cuda.stream_create(&after), 0);
    OnGpu<std::int32_t> data(device, 1000), copy(device, 1000);
    std::promise<void> go;
    FakeCuda::enqueue(before, [&, gate = go.get_future().share()] {
      gate.wait();
      std::ranges::fill(data.span(), g.rank() + 1);
    });
    Work work = g.all_reduce_async(data.span(), {}, {.stream = before});
    work.wait_on(after);
    EXPECT_FALSE(work.done()) << "its input is not there yet";
    std::promise<std::int32_t> seen;
    FakeCuda::enqueue(after, [&] { seen.set_value(data[999]); });
    go.set_value();
    EXPECT_EQ(seen.get_future().get(), 3);
    EXPECT_TRUE(work.wait());
    EXPECT_EQ(cuda.stream_destroy(before), 0);
    EXPECT_EQ(cuda.stream_destroy(after), 0);
  });
}

// D.8, GD-4: the kernels that wrote the data run on the default stream; nobody names a stream.
TEST_F(NcclTest, AnOperationComesAfterTheKernelsOfTheDefaultStream) {
  on_gpus({.ranks = 2}, [](Group g, GpuDevice& device) {
    device.use();
    OnGpu<std::int32_t> data(device, 1000);
    std::promise<void> go;
    FakeCuda::launch_on_default([&, gate = go.get_future().share()] {
      gate.wait();
      std::ranges::fill(data.span(), g.rank() + 1);
    });
    Work work = g.all_reduce_async(data.span());
    Work after = g.barrier_async();
    go.set_value();
    EXPECT_TRUE(work.wait());
    EXPECT_EQ(data[999], 3);
    after.wait();
  });
}

// wait_on for memory of the host is a wait.
TEST_F(NcclTest, WaitOnForHostMemoryWaits) {
  on_gpus({.ranks = 2}, [](Group g, GpuDevice& device) {
    std::vector<std::int64_t> data(10, g.rank() + 1);
    Work work = g.all_reduce_async(data);
    work.wait_on(device.copy_stream());
    EXPECT_TRUE(work.done());
    EXPECT_EQ(data[9], 3);
  });
}

// CLA-1: two groups on the same devices, blocking and not, in one order on all ranks; and each by itself in turn.
TEST_F(NcclTest, TwoGroupsOnOneDeviceAreLaunchedInTheOrderOfTheProgram) {
  GpuFounding one({.ranks = 3}), two({.ranks = 3});
  on_ranks(3, [&](int rank, const std::shared_ptr<GpuDevice>& device) {
    Group a = one.member(rank, device), b = two.member(rank, device);
    OnGpu<std::int32_t> x(*device, 64), y(*device, 64);
    std::ranges::fill(x.span(), 1);
    std::ranges::fill(y.span(), 1);
    for (int round = 0; round < 30; ++round) {
      Work first = a.all_reduce_async(x.span(), Op::kMax), second = b.all_reduce_async(y.span(), Op::kSum);
      b.all_reduce(y.span(), Op::kMax);
      a.all_reduce(x.span(), Op::kSum);
      EXPECT_TRUE(first.wait());
      EXPECT_TRUE(second.wait());
      std::ranges::fill(x.span(), 1);
      EXPECT_EQ(y[63], 3);
      std::ranges::fill(y.span(), 1);
    }
  });
}

TEST_F(NcclTest, GroupsWithinAGroup) {
  on_gpus({.ranks = 5}, [](Group g, GpuDevice& device) {
    Group half = g.split(g.rank() % 2, -g.rank());
    EXPECT_EQ(half.backend(), Backend::kNccl);
    EXPECT_EQ(half.size(), g.rank() % 2 ? 2 : 3);
    OnGpu<std::int64_t> v(device, 1);
    v[0] = g.rank();
    half.all_reduce(v.span());
    EXPECT_EQ(v[0], g.rank() % 2 ? 4 : 6);
    OnGpu<std::int64_t> order(device, std::size_t(half.size())), own(device, 1);
    own[0] = g.rank();
    half.all_gather(own.span(), order.span());
    for (std::size_t i = 1; i < order.span().size(); ++i)
      EXPECT_GT(order[i - 1], order[i]) << "by key: NCCL and the control links agree on the ranks";
    Group none = g.split(g.rank() == 0 ? -1 : 1, 0);
    if (g.rank() == 0) EXPECT_THROW((void)none.size(), InvalidArgumentError);
    else EXPECT_EQ(none.size(), 4);
    g.barrier();
  });
}

// GR-2: what is wrong by itself harms nothing.
TEST_F(NcclTest, MemoryOfAnotherGpuIsRefusedAndTheGroupStaysWhole) {
  on_gpus({.ranks = 2}, [](Group g, GpuDevice& device) {
    const auto other = fake_device(7);
    OnGpu<float> foreign(*other, 8), own(device, 8);
    EXPECT_THROW(g.all_reduce(foreign.span()), InvalidArgumentError);
    EXPECT_THROW((void)g.all_reduce_async(foreign.span()), InvalidArgumentError);
    std::ranges::fill(own.span(), 1.0f);
    g.all_reduce(own.span());
    EXPECT_EQ(own[7], 2.0f);
  });
}

}  // namespace
}  // namespace troupe::collective

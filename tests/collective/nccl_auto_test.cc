// Groups whose members all hold GPUs, where nothing was asked for: device memory by NCCL, memory of the host by the
// control links, and what becomes of those where NCCL is not to be had or ranks mix the two. Over fakes: gpu_ranks.h.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include <unistd.h>

#include "core/base/log.h"
#include "tests/collective/gpu_ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;
using std::chrono::milliseconds;

/// How an operation ended; fails the test when it did not.
template <class F> CollectiveError ended(F&& operation) {
  try {
    operation();
  } catch (const CollectiveError& error) {
    return error;
  }
  ADD_FAILURE() << "it went well";
  return CollectiveError::from({}, "it went well");
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

float sum_on_gpu(Group& g, GpuDevice& device, std::size_t count = 100) {
  OnGpu<float> data(device, count);
  std::ranges::fill(data.span(), 1.0f);
  g.all_reduce(data.span());
  return data[count - 1];
}
float sum_on_host(Group& g, std::size_t count = 100) {
  std::vector<float> data(count, 1.0f);
  g.all_reduce(data);
  return data[count - 1];
}

class NcclAuto : public OnFakes {
 protected:
  void SetUp() override {
    OnFakes::SetUp();
    FakeNccl::instance().on([this](NcclPoint point, int) {
      if (point == NcclPoint::kLaunch) ++launches_;
      if (point == NcclPoint::kInit) ++inits_;
      return NcclFault{};
    });
  }
  static GpuSetting setting(int ranks) { return {.ranks = ranks, .scope = NcclScope::kDeviceMemory}; }

  std::atomic<int> launches_ = 0, inits_ = 0;  // of NCCL, on all ranks
};

/// What is logged meanwhile.
class Log {
 public:
  Log() { EXPECT_TRUE(open_log({.file = path_, .level = LogLevel::kInfo})); }
  ~Log() {
    (void)open_log({.level = LogLevel::kWarn});
    std::filesystem::remove(path_);
  }
  std::string text() const {
    flush_log();
    std::ostringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }

 private:
  const std::string path_ = "/tmp/troupe-nccl-auto-" + std::to_string(::getpid());
};

// NC-5: which way an operation goes is for its memory to say, and NCCL's communicator is made when it is needed.
TEST_F(NcclAuto, DeviceMemoryGoesByNcclAndMemoryOfTheHostDoesNot) {
  on_gpus(setting(3), [&](Group g, GpuDevice& device) {
    EXPECT_EQ(g.backend(), Backend::kNccl);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(sum_on_host(g, 100'000), 3);
    g.barrier();
    EXPECT_EQ(inits_, 0);
    EXPECT_EQ(launches_, 0);
    g.barrier();
    EXPECT_EQ(sum_on_gpu(g, device), 3);
    g.barrier();
    EXPECT_EQ(inits_, 3);
    EXPECT_EQ(launches_, 3);
    g.barrier();
    const std::vector<std::int64_t> own(5, g.rank());
    std::vector<std::int64_t> all(15);
    g.all_gather(own, all);
    EXPECT_EQ(all[14], 2);
    EXPECT_EQ(sum_on_gpu(g, device, 7), 3);
    g.barrier();
    EXPECT_EQ(inits_, 3);
    EXPECT_EQ(launches_, 6);
  });
}

// GMB-5: they keep the order in which they were issued.
TEST_F(NcclAuto, BothSidesUnderWayFinishInOrder) {
  on_gpus(setting(3), [](Group g, GpuDevice& device) {
    std::vector<std::unique_ptr<OnGpu<float>>> there;
    std::vector<std::vector<float>> here;
    std::vector<Work> works;
    for (int k = 0; k < 40; ++k) {
      there.push_back(std::make_unique<OnGpu<float>>(device, std::vector<float>(10, float(g.rank() + k))));
      here.emplace_back(10, float(g.rank() - k));
    }
    for (std::size_t k = 0; k < 40; ++k) {
      works.push_back(g.all_reduce_async(there[k]->span()));
      if (k % 3 == 0) works.push_back(g.all_reduce_async(here[k]));
    }
    works.back().wait_on(device.copy_stream());
    g.barrier();
    for (Work& work : works) EXPECT_TRUE(work.done());
    for (std::size_t k = 0; k < 40; ++k) {
      EXPECT_EQ((*there[k])[9], float(3 + 3 * int(k)));
      EXPECT_EQ(here[k][9], k % 3 == 0 ? float(3 - 3 * int(k)) : float(g.rank() - int(k)));
    }
  });
}

// Messages go by the control links from and to either side.
TEST_F(NcclAuto, MessagesMayEndOnTheOtherSide) {
  on_gpus(setting(2), [&](Group g, GpuDevice& device) {
    OnGpu<std::int32_t> there(device, 1000);
    std::vector<std::int32_t> here(1000, 7);
    if (g.rank() == 0) {
      g.send(here, 1);
      g.recv(there.span(), 1);
      EXPECT_EQ(there[999], 8);
    } else {
      g.recv(there.span(), 0);
      EXPECT_EQ(there[999], 7);
      std::ranges::fill(here, 8);
      g.send(here, 0);
    }
    g.barrier();
    EXPECT_EQ(launches_, 0);
  });
}

// Before NCCL's communicator was made, and after.
TEST_F(NcclAuto, GroupsWithinAGroupAreOfTheSameKind) {
  on_gpus(setting(5), [&](Group g, GpuDevice& device) {
    for (const bool made : {false, true}) {
      Group half = g.split(g.rank() % 2, -g.rank());
      EXPECT_EQ(half.backend(), Backend::kNccl);
      EXPECT_EQ(sum_on_host(half), float(half.size()));
      EXPECT_EQ(sum_on_gpu(half, device), float(half.size()));
      Group none = g.split(g.rank() == 0 ? -1 : 1, 0);
      EXPECT_EQ(g.rank() == 0 ? 4 : sum_on_gpu(none, device), 4);
      EXPECT_EQ(made ? 5 : sum_on_gpu(g, device), 5);
    }
  });
}

// NC-5: the side is part of what ranks agree on, whoever is the odd one, in the first operation and in later ones.
TEST_F(NcclAuto, RanksThatMixTheTwoAreToldOnAllRanks) {
  for (const int odd : {0, 1, 2})
    for (const bool odd_on_gpu : {false, true})
      for (const bool made : {false, true}) {
        // who is still in an operation when two others mismatch in the next one does not end it well
        std::barrier whole(3);
        on_gpus(setting(3), [&](Group g, GpuDevice& device) {
          EXPECT_EQ(made ? sum_on_gpu(g, device) : 3, 3);
          whole.arrive_and_wait();
          const auto begin = Clock::now();
          const CollectiveError error =
              ended([&] { (g.rank() == odd) == odd_on_gpu ? sum_on_gpu(g, device) : sum_on_host(g); });
          EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30)) << "its deadline is after a minute";
          EXPECT_EQ(error.reason(), Reason::kMismatch) << error.what();
          EXPECT_EQ(error.group(), "test");
          EXPECT_EQ(error.operation(), "all_reduce");
          const std::string what = "called all_reduce of 100 float32 (sum)";
          EXPECT_TRUE(has(error.what(), what + " in device memory")) << error.what();
          EXPECT_TRUE(has(error.what(), what + ", rank") || has(error.what(), what + " (group"))
              << "the other side: " << error.what();
          EXPECT_TRUE(has(error.what(), "rank " + std::to_string(odd) + " called")) << error.what();
          EXPECT_EQ(ended([&] { g.barrier(); }).reason(), Reason::kMismatch);
        });
      }
}

// A rank without an element says by what it passes on which side it is.
TEST_F(NcclAuto, PartsOfNothing) {
  on_gpus(setting(2), [&](Group g, GpuDevice& device) {
    const std::vector<std::size_t> counts{0, 4};
    OnGpu<float> in(device, counts[std::size_t(g.rank())]), out(device, 4);
    std::ranges::fill(in.span(), 5.0f);
    g.all_gather_v(in.span(), out.span(), counts);
    EXPECT_EQ(out[3], 5.0f);
    std::ranges::fill(out.span(), 0.0f);
    g.gather_v(in.span(), g.rank() == 0 ? out.span() : std::span<float>(), counts, 0);
    EXPECT_EQ(out[3], g.rank() == 0 ? 5.0f : 0.0f);
    g.scatter_v(g.rank() == 1 ? out.span() : std::span<float>(), in.span(), counts, 1);
    g.all_reduce(in.span().first(0));
    EXPECT_EQ(sum_on_host(g), 2);
  });
}

// GR-2
TEST_F(NcclAuto, AnOperationOfOneRankIsOnOneSide) {
  on_gpus(setting(2), [](Group g, GpuDevice& device) {
    OnGpu<float> there(device, 8);
    std::vector<float> here(8, 1);
    EXPECT_THROW(g.all_reduce(here, there.span()), InvalidArgumentError);
    EXPECT_THROW((void)g.all_reduce_async(there.span(), here), InvalidArgumentError);
    EXPECT_EQ(sum_on_host(g), 2);
    EXPECT_EQ(sum_on_gpu(g, device), 2);
  });
}

// -------------------------------------------------------------------------------------------------------- without NCCL

/// What a DeviceArray looks like to an operation, where this process could make none.
struct Array {
  float* data() { return values.data(); }
  const float* data() const { return values.data(); }
  std::size_t size() const { return values.size(); }
  int device() const { return 0; }
  Stream stream() const { return {}; }
  std::vector<float> values = std::vector<float>(100, 1.0f);
};

/// The control links of three ranks, of which rank 1 lacks something; whether it has a GPU all the same.
void without(bool gpu, const std::function<void(Group, GpuDevice&)>& body) {
  GpuFounding founding({.ranks = 3, .scope = NcclScope::kDeviceMemory});
  on_ranks(3, [&](int rank, const std::shared_ptr<GpuDevice>& device) {
    body(founding.member(rank, rank != 1 || gpu ? device : nullptr, rank == 1 ? "NCCL is not there: libnccl.so.2" : ""),
         *device);
  });
}

TEST_F(NcclAuto, WhereOneRankLacksNcclTheGroupMakesDo) {
  const Log log;
  for (const bool gpu : {true, false}) {
    without(gpu, [](Group g, GpuDevice&) {
      EXPECT_EQ(g.backend(), Backend::kShm);
      EXPECT_EQ(sum_on_host(g), 3);
      EXPECT_EQ(sum_on_host(g, 100'000), 3);
      Group pair = g.split(g.rank() == 2 ? -1 : 0, 0);
      EXPECT_EQ(g.rank() == 2 ? 2 : sum_on_host(pair), 2);
    });
  }
  const std::string text = log.text();
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << "once a group: " << text;
  EXPECT_TRUE(has(text, "group 'test' makes do with shm") && has(text, "rank 1: NCCL is not there: libnccl.so.2"))
      << text;
  EXPECT_EQ(inits_, 0);
}

void expect_lacks(const CollectiveError& error) {
  EXPECT_EQ(error.reason(), Reason::kBackend) << error.what();
  EXPECT_EQ(error.missing_ranks(), std::vector{1});
  EXPECT_TRUE(has(error.what(), "in device memory") && has(error.what(), "rank 1: NCCL is not there: libnccl.so.2"))
      << error.what();
}

// WN-1: by address, by type, in a message, in a group within the group, and when one rank alone does it.
TEST_F(NcclAuto, DeviceMemoryIsToldThenWhatIsMissingWhere) {
  const std::vector<std::function<void(Group&, GpuDevice&)>> ways{
      [](Group& g, GpuDevice& device) { (void)sum_on_gpu(g, device); },
      [](Group& g, GpuDevice&) {
        Array array;
        g.all_reduce(array);
      },
      [](Group& g, GpuDevice& device) {
        OnGpu<float> data(device, 100);
        g.all_reduce_async(data.span()).wait();
      },
      [](Group& g, GpuDevice& device) {
        OnGpu<float> data(device, 100);
        g.send(data.span(), (g.rank() + 1) % 3);
      },
      [](Group& g, GpuDevice& device) { g.rank() == 2 ? sum_on_gpu(g, device) : sum_on_host(g); },
  };
  for (const auto& way : ways)
    without(true, [&](Group g, GpuDevice& device) {
      expect_lacks(ended([&] { way(g, device); }));
      expect_lacks(ended([&] { g.barrier(); }));
    });
  without(true, [](Group g, GpuDevice& device) {
    Group part = g.split(0, 0);
    expect_lacks(ended([&] { (void)sum_on_gpu(part, device); }));
  });
  EXPECT_EQ(inits_, 0);
}

// A rank that never enters: the group is one that has failed, as it would be on any other links.
TEST_F(NcclAuto, ARankThatDoesNotEnterIsNamedByTheFirstOperation) {
  GpuFounding founding({.ranks = 2, .forming = milliseconds(200), .scope = NcclScope::kDeviceMemory});
  Group g = founding.member(0, fake_device(0));
  Array array;
  const CollectiveError error = ended([&] { g.all_reduce(array); });
  EXPECT_EQ(error.reason(), Reason::kTimeout) << error.what();
  EXPECT_EQ(error.missing_ranks(), std::vector{1});
}

// ------------------------------------------------------------------------------- NCCL's communicator is not to be made

TEST_F(NcclAuto, WhatFailsInTheMakingFailsTheOperationOnAllRanks) {
  for (const NcclPoint where : {NcclPoint::kUniqueId, NcclPoint::kInit, NcclPoint::kInitAsync}) {
    EXPECT_TRUE(Devices::instance().await_idle());
    FakeNccl::instance().reset();
    FakeNccl::instance().on([where](NcclPoint point, int rank) {
      return NcclFault{.result = point == where && rank <= 0 ? kNcclSystemError : kNcclSuccess};
    });
    on_gpus(setting(3), [](Group g, GpuDevice& device) {
      EXPECT_EQ(sum_on_host(g), 3);
      const CollectiveError error = ended([&] { (void)sum_on_gpu(g, device); });
      EXPECT_EQ(error.reason(), Reason::kBackend) << error.what();
      EXPECT_TRUE(has(error.what(), "rank 0") && has(error.what(), "the last error of the fake")) << error.what();
    });
  }
}

TEST_F(NcclAuto, AnInitThatHangsIsLeftAtTheDeadlineOfTheOperation) {
  FakeNccl::instance().on(
      [](NcclPoint point, int rank) { return NcclFault{.hangs = point == NcclPoint::kInit && rank == 0}; });
  GpuSetting brief = setting(2);
  brief.timeout = milliseconds(300);
  on_gpus(brief, [](Group g, GpuDevice& device) {
    EXPECT_EQ(ended([&] { (void)sum_on_gpu(g, device); }).reason(), Reason::kTimeout);
  });
}

// NC-2: a failure while one rank makes it, and one on the other side afterwards.
TEST_F(NcclAuto, AnAbortEndsTheMakingAndWhatIsMade) {
  std::barrier whole(2);
  on_gpus(setting(2), [&](Group g, GpuDevice& device) {
    EXPECT_EQ(sum_on_gpu(g, device), 2);
    whole.arrive_and_wait();
    if (g.rank() == 1) g.abort("enough");
    EXPECT_EQ(ended([&] { for (;;) (void)sum_on_host(g); }).reason(), Reason::kAborted);
    EXPECT_EQ(ended([&] { (void)sum_on_gpu(g, device); }).reason(), Reason::kAborted);
  });
  EXPECT_TRUE(Devices::instance().await_idle());
  std::promise<void> begun;
  FakeNccl::instance().on([&](NcclPoint point, int rank) {
    if (point != NcclPoint::kInit || rank != 0) return NcclFault{};
    begun.set_value();
    return NcclFault{.hangs = true};
  });
  on_gpus(setting(2), [&](Group g, GpuDevice& device) {
    OnGpu<float> data(device, 10);
    Work work = g.all_reduce_async(data.span());
    if (g.rank() == 1) {
      begun.get_future().wait();
      g.abort("enough");
    }
    EXPECT_EQ(ended([&] { work.wait(); }).reason(), Reason::kAborted);
  });
}

}  // namespace
}  // namespace troupe::collective

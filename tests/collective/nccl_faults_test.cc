// What goes wrong in the nccl backend: every error path, from a rank without a GPU to an abort that hangs. Each ends in
// a CollectiveError on all ranks within its deadline. Over fakes: gpu_ranks.h.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <atomic>
#include <future>

#include <fmt/format.h>

#include "tests/collective/gpu_ranks.h"

namespace troupe::collective {
namespace {

using namespace testing;
using std::chrono::milliseconds;

struct Ended {
  Reason reason = Reason::kStale;
  std::string text;
  std::vector<int> missing;
};

/// How an operation ended; fails the test when it did not.
template <class F> Ended ended(F&& operation) {
  try {
    operation();
  } catch (const CollectiveError& error) {
    return {error.reason(), error.what(), error.missing_ranks()};
  }
  ADD_FAILURE() << "it went well";
  return {};
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void sum(Group& g, GpuDevice& device, Duration timeout = kGroupTimeout) {
  OnGpu<float> data(device, 100);
  std::ranges::fill(data.span(), 1.0f);
  g.all_reduce(data.span(), Op::kSum, {.timeout = timeout});
  EXPECT_EQ(data[99], float(g.size()));
}

/// Fails at a point on one rank, from the n-th time on; rank -2: on all.
auto at(NcclPoint where, int who, NcclFault fault, int from = 0) {
  return [=, count = std::make_shared<std::atomic<int>>(0)](NcclPoint point, int rank) {
    return point == where && (who == -2 || rank == who) && count->fetch_add(1) >= from ? fault : NcclFault{};
  };
}

/// Rank 0's device hangs in its first operation, and tells.
auto hangs_at_rank_0(std::promise<void>& told) {
  return [&told](NcclPoint point, int rank) {
    if (point != NcclPoint::kExecute || rank != 0) return NcclFault{};
    told.set_value();
    return NcclFault{.hangs = true};
  };
}

class NcclFaults : public OnFakes {
 protected:
  static FakeNccl& nccl() { return FakeNccl::instance(); }
  /// All ranks try to form a group; how that ended on each.
  static std::vector<Ended> forming(const GpuSetting& setting, const std::function<std::string(int)>& missing = {}) {
    GpuFounding founding(setting);
    std::vector<Ended> ends(static_cast<std::size_t>(setting.ranks));
    on_ranks(setting.ranks, [&](int rank, const std::shared_ptr<GpuDevice>& device) {
      const std::string lacks = missing ? missing(rank) : "";
      ends[std::size_t(rank)] = ended([&] { (void)founding.member(rank, lacks.empty() ? device : nullptr, lacks); });
    });
    return ends;
  }
  /// A whole group does one operation, which fails; how that ended on each.
  static std::vector<Ended> working(const GpuSetting& setting,
                                    const std::function<void(Group&, GpuDevice&)>& before = {}) {
    std::vector<Ended> ends(static_cast<std::size_t>(setting.ranks));
    on_gpus(setting, [&](Group g, GpuDevice& device) {
      if (before) before(g, device);
      ends[std::size_t(g.rank())] = ended([&] { sum(g, device); });
      ended([&] { g.barrier(); });  // it stays failed
    });
    return ends;
  }
};

// ------------------------------------------------------------------------------------------------------------- forming

// NC-4
TEST_F(NcclFaults, WhatOneRankLacksAllAreTold) {
  for (const Ended& end :
       forming({.ranks = 3}, [](int rank) { return rank == 1 ? "no GPU: CUDA says 'no device'" : ""; })) {
    EXPECT_EQ(end.reason, Reason::kBackend);
    EXPECT_EQ(end.missing, std::vector{1});
    EXPECT_TRUE(has(end.text, "rank 1: no GPU: CUDA says 'no device'")) << end.text;
  }
}

TEST_F(NcclFaults, NoNcclOrTooOldAnOne) {
  const std::string old = version_objection(nccl_version(2, 19, 3));
  for (const Ended& end : forming({.ranks = 2}, [&](int rank) { return rank == 0 ? old : ""; })) {
    EXPECT_EQ(end.reason, Reason::kBackend);
    EXPECT_TRUE(has(end.text, "2.19.3") && has(end.text, "2.26.0")) << end.text;
  }
}

TEST_F(NcclFaults, ARankThatDoesNotComeIsNamed) {
  GpuFounding founding({.ranks = 2, .forming = milliseconds(200)});
  const Ended end = ended([&] { (void)founding.member(0, fake_device(0)); });
  EXPECT_EQ(end.reason, Reason::kTimeout);
  EXPECT_EQ(end.missing, std::vector{1});
}

TEST_F(NcclFaults, TheIdIsNotMade) {
  nccl().on(at(NcclPoint::kUniqueId, -1, {.result = kNcclSystemError}));
  for (const Ended& end : forming({.ranks = 2})) {
    EXPECT_EQ(end.reason, Reason::kBackend);
    EXPECT_TRUE(has(end.text, "ncclGetUniqueId") && has(end.text, "the last error of the fake")) << end.text;
  }
}

// NC-2, NM-3: an init that fails at once, and one that fails later.
TEST_F(NcclFaults, InitFailsOnOneRankAndSoOnAll) {
  for (const NcclPoint where : {NcclPoint::kInit, NcclPoint::kInitAsync}) {
    nccl().reset();
    nccl().on(at(where, 1, {.result = kNcclUnhandledCudaError}));
    for (const Ended& end : forming({.ranks = 3})) {
      EXPECT_EQ(end.reason, Reason::kBackend);
      EXPECT_TRUE(has(end.text, "rank 1: ncclCommInitRankConfig") && has(end.text, "the last error of the fake"))
          << end.text;
    }
  }
}

// CST-1: an init that does not return is left at the deadline.
TEST_F(NcclFaults, InitHangs) {
  nccl().on(at(NcclPoint::kInit, 0, {.hangs = true}));
  for (const Ended& end : forming({.ranks = 2, .forming = milliseconds(300)}))
    EXPECT_EQ(end.reason, Reason::kTimeout) << end.text;
}

// ---------------------------------------------------------------------------------------------------------- operations

// NC-1: both signatures, on all ranks, before anything moves; and the host's deadline names who did not come.
TEST_F(NcclFaults, RanksThatDisagreeAreToldBothSides) {
  on_gpus({.ranks = 2}, [](Group g, GpuDevice& device) {
    const Ended end = ended([&] {
      OnGpu<float> data(device, g.rank() == 0 ? 100u : 101u);
      g.all_reduce(data.span());
    });
    EXPECT_EQ(end.reason, Reason::kMismatch);
    EXPECT_TRUE(has(end.text, "100") && has(end.text, "101") && has(end.text, "all_reduce")) << end.text;
  });
}

TEST_F(NcclFaults, ARankThatIsLateIsNamedAtTheDeadline) {
  std::promise<void> over;
  on_gpus({.ranks = 2, .timeout = milliseconds(200)},
          [&, gate = over.get_future().share()](Group g, GpuDevice& device) {
            if (g.rank() == 1) return gate.wait();
            const Ended end = ended([&] { sum(g, device); });
            over.set_value();
            EXPECT_EQ(end.reason, Reason::kTimeout);
            EXPECT_EQ(end.missing, std::vector{1});
          });
}

// NC-2, NC-3: a device that is not through at the deadline; the abort frees the stream. The ranks leave a barrier
// together, however long they took to it; each has the limit to come to the operation, also one that gets no core for a
// while.
TEST_F(NcclFaults, AStalledDeviceEndsAtTheDeadlineOnAllRanks) {
  nccl().on(at(NcclPoint::kExecute, 1, {.hangs = true}));
  const auto gather = [](Group& g, GpuDevice&) { g.barrier({.timeout = std::chrono::seconds(60)}); };
  for (const Ended& end : working({.ranks = 3, .timeout = std::chrono::seconds(8)}, gather)) {
    EXPECT_EQ(end.reason, Reason::kTimeout);
    EXPECT_TRUE(has(end.text, "was not through with all_reduce")) << end.text;
  }
  EXPECT_TRUE(Devices::instance().await_idle());
  EXPECT_EQ(nccl().aborts(), 3) << "every rank aborts";
}

// GD-2: nobody asks but the watchdog.
TEST_F(NcclFaults, AnAsynchronousErrorIsSeenByTheWatchdog) {
  std::atomic<int> asked = 0;
  std::atomic<bool> broken = false;
  nccl().on([&](NcclPoint point, int rank) {
    if (point == NcclPoint::kExecute && rank == 0) return NcclFault{.hangs = true};
    if (point == NcclPoint::kExecute && rank == 2) broken = true;
    // the first one asks for the launch
    const bool fails = point == NcclPoint::kAsyncError && rank == 2 && broken && asked.fetch_add(1) > 0;
    return NcclFault{.result = fails ? kNcclInternalError : kNcclSuccess};
  });
  for (const Ended& end : working({.ranks = 3})) {
    EXPECT_EQ(end.reason, Reason::kBackend);
    EXPECT_TRUE(has(end.text, "rank 2: NCCL") && has(end.text, "the last error of the fake")) << end.text;
  }
}

TEST_F(NcclFaults, ARemoteErrorIsADeath) {
  std::atomic<bool> broken = false;
  nccl().on([&](NcclPoint point, int rank) {
    if (point == NcclPoint::kExecute && rank == 0) return broken = true, NcclFault{.hangs = true};
    return NcclFault{.result =
                         point == NcclPoint::kAsyncError && rank == 1 && broken ? kNcclRemoteError : kNcclSuccess};
  });
  for (const Ended& end : working({.ranks = 2})) {
    EXPECT_EQ(end.reason, Reason::kDied);
    EXPECT_TRUE(has(end.text, "remote process exited")) << end.text;
  }
}

TEST_F(NcclFaults, ALaunchThatFailsEndsTheOperationOnAllRanks) {
  nccl().on(at(NcclPoint::kLaunch, 1, {.result = kNcclUnhandledCudaError}));
  for (const Ended& end : working({.ranks = 3})) {
    EXPECT_EQ(end.reason, Reason::kBackend);
    // Rank 1's launcher says it, or the watchdog, where that has looked at the communicator first.
    EXPECT_TRUE(has(end.text, "rank 1: all_reduce") || has(end.text, "rank 1: NCCL: unhandled")) << end.text;
  }
}

TEST_F(NcclFaults, AnEventThatCannotBeRecorded) {
  const auto ends = working({.ranks = 2}, [](Group& g, GpuDevice&) {
    g.barrier();
    FakeCuda::instance().faults.record = 719;
  });
  for (const Ended& end : ends) EXPECT_EQ(end.reason, Reason::kBackend) << end.text;
}

// LD-3
TEST_F(NcclFaults, AnEventThatCannotBeAskedFor) {
  give_up_memory();
  const auto ends = working({.ranks = 2}, [](Group& g, GpuDevice&) {
    g.barrier();
    FakeCuda::instance().faults.query = 719;
  });
  for (const Ended& end : ends) EXPECT_EQ(end.reason, Reason::kBackend) << end.text;
}

TEST_F(NcclFaults, OutOfMemoryForStagingEndsTheOperation) {
  on_gpus({.ranks = 2}, [](Group g, GpuDevice&) {
    g.barrier();
    FakeCuda::instance().faults.allocations_left = 0;
    std::vector<float> data(1000, 1.0f);
    const Ended end = ended([&] { g.all_reduce(data); });
    EXPECT_EQ(end.reason, Reason::kBackend);
    EXPECT_TRUE(has(end.text, "bytes more")) << end.text;
  });
}

TEST_F(NcclFaults, AbortFreesWhoWaitsForTheDevice) {
  std::promise<void> hangs;
  nccl().on(hangs_at_rank_0(hangs));
  on_gpus({.ranks = 2}, [&](Group g, GpuDevice& device) {
    OnGpu<float> data(device, 10);
    Work work = g.all_reduce_async(data.span());
    if (g.rank() == 1) {
      hangs.get_future().wait();
      g.abort("enough");
    }
    const Ended end = ended([&] { work.wait(); });
    EXPECT_EQ(end.reason, Reason::kAborted);
    EXPECT_TRUE(has(end.text, "enough")) << end.text;
  });
}

// NL-3: reported, and nobody hangs.
TEST_F(NcclFaults, AnAbortThatHangsIsLeftAfterItsLimit) {
  give_up_memory();
  nccl().on([](NcclPoint point, int rank) {
    return NcclFault{.hangs = point == NcclPoint::kExecute || (point == NcclPoint::kAbort && rank == 0)};
  });
  GpuFounding founding({.ranks = 2, .timeout = milliseconds(300)});
  on_ranks(2, [&](int rank, const std::shared_ptr<GpuDevice>& device) {
    static auto& memory = *new std::vector<std::unique_ptr<OnGpu<float>>>(2);  // the device may still write to it
    Group g = founding.member(rank, device);
    memory[std::size_t(rank)] = std::make_unique<OnGpu<float>>(*device, 100);
    EXPECT_EQ(ended([&] { g.all_reduce(memory[std::size_t(rank)]->span()); }).reason, Reason::kTimeout);
  });
}

// NL-2: a finalize that does not return becomes an abort; dropping a group waits for none of it but the device's own
// end does.
TEST_F(NcclFaults, AFinalizeThatFailsBecomesAnAbort) {
  nccl().on(at(NcclPoint::kFinalize, 0, {.result = kNcclSystemError}));
  on_gpus({.ranks = 2}, [](Group g, GpuDevice& device) { sum(g, device); });
  EXPECT_TRUE(Devices::instance().await_idle());
  EXPECT_EQ(nccl().aborts(), 1);
}

TEST_F(NcclFaults, ASplitThatFailsFailsTheGroup) {
  nccl().on(at(NcclPoint::kSplit, 1, {.result = kNcclInternalError}));
  on_gpus({.ranks = 3}, [](Group g, GpuDevice&) {
    const Ended end = ended([&] { (void)g.split(g.rank() % 2, 0); });
    EXPECT_EQ(end.reason, Reason::kBackend);
    EXPECT_TRUE(has(end.text, "ncclCommSplit")) << end.text;
  });
}

// The next epoch is a group like any other, on the same devices, after the one before was torn down.
TEST_F(NcclFaults, AfterAFailureTheGroupIsFormedAgain) {
  std::vector<std::shared_ptr<GpuDevice>> devices{fake_device(0), fake_device(1)};
  for (int epoch = 0; epoch < 3; ++epoch) {
    nccl().reset();
    nccl().on(at(NcclPoint::kExecute, epoch % 2, {.hangs = true}, 1));
    GpuFounding founding({.ranks = 2});
    on_ranks(2, [&](int rank, const std::shared_ptr<GpuDevice>&) {
      GpuDevice& device = *devices[std::size_t(rank)];
      Group g = founding.member(rank, devices[std::size_t(rank)]);
      sum(g, device);
      EXPECT_EQ(ended([&] { sum(g, device, milliseconds(500)); }).reason, Reason::kTimeout);
    });
  }
}

// GA-1: a handle of an epoch that is of the past; NCCL's communicator is aborted by the watchdog.
TEST_F(NcclFaults, AStaleHandleSaysSo) {
  GpuFounding founding({.ranks = 2});
  on_ranks(2, [&](int rank, const std::shared_ptr<GpuDevice>& device) {
    Group g = founding.member(rank, device);
    const Ended end = ended([&] {
      sum(g, *device);
      if (rank == 0) founding.segment().supersede(2);
      for (;;) sum(g, *device);  // until it has heard of it
    });
    EXPECT_EQ(end.reason, Reason::kStale) << end.text;
  });
}

// A member's death: the control links name it.
TEST_F(NcclFaults, AFailureOfTheControlLinksEndsTheOperation) {
  std::promise<void> hangs;
  nccl().on(hangs_at_rank_0(hangs));
  GpuFounding founding({.ranks = 2});
  on_ranks(2, [&](int rank, const std::shared_ptr<GpuDevice>& device) {
    Group g = founding.member(rank, device);
    OnGpu<float> data(*device, 10);
    Work work = g.all_reduce_async(data.span());
    if (rank == 1) hangs.get_future().wait();
    if (rank == 1) founding.segment().fail({Reason::kDied, "rank 1 died", {1}});
    const Ended end = ended([&] { work.wait(); });
    EXPECT_EQ(end.reason, Reason::kDied);
    EXPECT_EQ(end.missing, std::vector{1});
  });
}

// NM-2
TEST_F(NcclFaults, AnInvalidArgumentLeavesTheCommunicatorUsable) {
  on_gpus({.ranks = 1}, [](Group, GpuDevice& device) {
    NcclUniqueId id{};
    ASSERT_EQ(device.nccl().get_unique_id(&id), kNcclSuccess);
    auto segment = make_segment({.ranks = 1});
    auto control = std::make_shared<ShmCommunicator>(segment, 0);
    auto comm = NcclComm::begin(device, {.name = "alone", .id = id}, control);
    Patience patience(std::chrono::seconds(60), nullptr);
    ASSERT_TRUE(comm->await_ready(patience));
    const auto forever = Clock::time_point::max();
    EXPECT_EQ(comm->call("ncclAllReduce", forever, [](NcclHandle) { return kNcclInvalidArgument; }).result,
              kNcclInvalidArgument);
    EXPECT_EQ(comm->life(), Life::kReady);
    OnGpu<float> data(device, 4);
    EXPECT_TRUE(comm->call("ncclAllReduce", forever,
                           [&](NcclHandle handle) {
                             return device.nccl().all_reduce(data.span().data(), data.span().data(), 4, kNcclFloat32,
                                                             kNcclSum, handle, device.stream());
                           })
                    .ok());
    comm->close();
  });
}

/// What is done where a thread looks for a cancel, once: so it stands still between its look and its judgement.
class StandsStill final : public Environment {
 public:
  std::function<void()> meanwhile;
  bool on_fiber() override { return false; }
  std::unique_ptr<Suspension> suspension() override { return nullptr; }
  void check() override { if (meanwhile) std::exchange(meanwhile, nullptr)(); }
};

/// A group of one rank, and a time limit that passes while its thread stands still.
struct Alone {
  milliseconds limit{1};
  std::shared_ptr<GpuDevice> device = fake_device(0);
  std::unique_ptr<Communicator> group = [&] {
    Patience patience(std::chrono::seconds(60), nullptr);
    return over_nccl(std::make_unique<ShmCommunicator>(make_segment({.ranks = 1}), 0),
                     {.group = "alone", .device = device}, patience);
  }();
  std::vector<float> data = std::vector<float>(100, 2.0f);
  detail::Operation sum = all_reduce_of(data);
  StandsStill thread{};
  Patience patience{limit, &thread};

  void stand_still_until_late() { std::this_thread::sleep_until(patience.deadline() + milliseconds(1)); }
};

// The four waits of the nccl backend look once more when the time is over: what was through in time is well, however
// long the thread that waits for it had no core.
TEST_F(NcclFaults, WhoAwaitsTheDeviceLooksOnceMoreWhenItsTimeIsOver) {
  std::promise<void> through;
  nccl().on([&, gate = through.get_future().share()](NcclPoint point, int) {
    if (point == NcclPoint::kExecute) gate.wait();
    return NcclFault{};
  });
  Alone alone;
  Patience patience(std::chrono::seconds(60), nullptr);
  const auto handed = alone.group->hand_over(alone.sum, alone.group->take_number(), patience);
  ASSERT_TRUE(handed);
  (void)alone.patience.deadline();  // from now on
  alone.thread.meanwhile = [&] {
    through.set_value();
    while (!handed->over()) std::this_thread::yield();
    alone.stand_still_until_late();
  };
  while (!handed->over()) alone.group->await(*handed, alone.patience);
  EXPECT_FALSE(alone.group->failure()) << alone.group->failure()->text;
  EXPECT_TRUE(handed->settle());
}

// A thread looks for a cancel after 100 ms of waiting. One that had no core until its time was over may have seen that
// before it comes to that look: nothing is said of it then, and the next try has twice the time.
constexpr milliseconds kFirstLimit{300}, kLastLimit{40'000};

TEST_F(NcclFaults, WhoAwaitsALaunchLooksOnceMoreWhenItsTimeIsOver) {
  std::atomic<bool> launches = false;
  nccl().on([&](NcclPoint point, int) {
    if (point == NcclPoint::kLaunch) launches.wait(false);
    return NcclFault{};
  });
  bool in_time = false;
  for (milliseconds limit = kFirstLimit; !in_time && limit < kLastLimit; limit *= 2) {
    launches = false;
    Alone alone{.limit = limit};
    auto number = alone.group->take_number();
    const auto launch = [&] { launches = true, launches.notify_all(); };
    alone.thread.meanwhile = [&] {
      in_time = Clock::now() < alone.patience.deadline();
      launch();
      std::promise<void> next;  // of the same launcher: what was before it has been launched
      Launcher& launcher = alone.device->launcher();
      launcher.submit(*launcher.take_number(), [&] { next.set_value(); });
      next.get_future().wait();
      alone.stand_still_until_late();
    };
    const auto handed = alone.group->hand_over(alone.sum, std::move(number), alone.patience);
    launch();  // also where it never came to its look
    ASSERT_TRUE(handed || !in_time) << alone.group->failure().value_or(Failure{}).text;
    Patience patience(std::chrono::seconds(60), nullptr);
    while (handed && !handed->over()) alone.group->await(*handed, patience);
    EXPECT_TRUE(!in_time || handed->settle());
  }
  EXPECT_TRUE(in_time) << "no try began its look in time";
}

/// A communicator of NCCL alone.
struct Bare {
  std::shared_ptr<GpuDevice> device = fake_device(0);
  std::shared_ptr<ShmCommunicator> control = std::make_shared<ShmCommunicator>(make_segment({.ranks = 1}), 0);
  std::shared_ptr<NcclComm> comm = [&] {
    NcclUniqueId id{};
    EXPECT_EQ(device->nccl().get_unique_id(&id), kNcclSuccess);
    return NcclComm::begin(*device, {.name = "bare", .id = id}, control);
  }();
};

TEST_F(NcclFaults, WhoAwaitsNcclsCommunicatorLooksOnceMoreWhenItsTimeIsOver) {
  std::atomic<bool> initialized = false;
  nccl().on([&](NcclPoint point, int) {
    return NcclFault{.result = point == NcclPoint::kInitAsync && !initialized ? kNcclInProgress : kNcclSuccess};
  });
  bool in_time = false;
  for (milliseconds limit = kFirstLimit; !in_time && limit < kLastLimit; limit *= 2) {
    initialized = false;
    Bare bare;
    StandsStill thread;
    Patience patience(limit, &thread);
    thread.meanwhile = [&] {
      in_time = Clock::now() < patience.deadline();
      initialized = true;
      while (bare.comm->life() != Life::kReady) std::this_thread::yield();
      std::this_thread::sleep_until(patience.deadline() + milliseconds(1));
    };
    const bool ready = bare.comm->await_ready(patience);
    EXPECT_TRUE(ready || !in_time) << bare.control->failure().value_or(Failure{}).text;
    bare.comm->close();
  }
  EXPECT_TRUE(in_time) << "no try began its look in time";
}

TEST_F(NcclFaults, WhoAsksNcclAsksOnceMoreWhenItsTimeIsOver) {
  std::atomic<int> asked = 0, through_at = 0;
  nccl().on([&](NcclPoint point, int) {
    const bool in_progress = point == NcclPoint::kAsyncError && asked.fetch_add(1) < through_at;
    return NcclFault{.result = in_progress ? kNcclInProgress : kNcclSuccess};
  });
  Bare bare;
  Patience patience(std::chrono::seconds(60), nullptr);
  ASSERT_TRUE(bare.comm->await_ready(patience));
  const auto call = [&](int at) {
    return bare.comm->call("ncclAllReduce", Clock::now(), [&](NcclHandle) {
      through_at = at;
      asked = 0;
      return kNcclInProgress;
    }).result;
  };
  EXPECT_EQ(call(1), kNcclSuccess);
  EXPECT_EQ(call(1'000'000'000), NcclOutcome::kLate);
  bare.comm->close();
  through_at = 0;
}

// Without plug-in, GPU or NCCL: join says on every rank what is missing, at a path and at an address.
TEST(NcclJoin, WhatIsMissingIsSaidOnAllRanks) {
  ::setenv("TROUPE_CUDA_LIB", "/nowhere/libtroupe_cuda.so", 1);
  for (const std::string& address : {fmt::format("/tmp/troupe-nccl-join-{}", ::getpid()), free_address()}) {
    std::vector<std::thread> ranks;
    for (int r = 0; r < 2; ++r)
      ranks.emplace_back([&, r] {
        const Ended end = ended([&] { (void)join("gpus", r, 2, {.address = address, .backend = Backend::kNccl}); });
        EXPECT_EQ(end.reason, Reason::kBackend);
        EXPECT_EQ(end.missing, (std::vector{0, 1}));
        EXPECT_TRUE(has(end.text, "rank 0: the CUDA plug-in is not there") &&
                    has(end.text, "/nowhere/libtroupe_cuda.so"))
            << end.text;
      });
    for (auto& rank : ranks) rank.join();
  }
}

}  // namespace
}  // namespace troupe::collective

// The parts of the nccl backend that need neither GPU nor NCCL: the life of a communicator, the order of launches,
// slabs, what ranks agree on, where the library is looked for.
#include <gtest/gtest.h>

#include <cstring>
#include <future>
#include <random>
#include <set>

#include "collective/device/device_memory.h"
#include "collective/device/launcher.h"
#include "collective/nccl/agreement.h"
#include "collective/nccl/library.h"
#include "collective/nccl/life.h"
#include "tests/collective/fake_cuda.h"

namespace troupe::collective {
namespace {

constexpr Life kLives[] = {Life::kInit,  Life::kReady,   Life::kFailing, Life::kAborted,
                           Life::kStuck, Life::kClosing, Life::kClosed};
constexpr LifeEvent kEvents[] = {LifeEvent::kInitialized, LifeEvent::kFailed,    LifeEvent::kAborted,
                                 LifeEvent::kClose,       LifeEvent::kFinalized, LifeEvent::kLimit};

TEST(NcclLife, TheRoadsOfTheDiagram) {
  const auto expect = [](Life from, LifeEvent event, Life to, LifeEffect effect) {
    const LifeStep step = next(from, event);
    EXPECT_EQ(step.state, to) << life_name(from);
    EXPECT_EQ(step.effect, effect) << life_name(from);
  };
  expect(Life::kInit, LifeEvent::kInitialized, Life::kReady, LifeEffect::kNone);
  expect(Life::kInit, LifeEvent::kFailed, Life::kFailing, LifeEffect::kAbort);
  expect(Life::kInit, LifeEvent::kClose, Life::kFailing, LifeEffect::kAbort);
  expect(Life::kReady, LifeEvent::kFailed, Life::kFailing, LifeEffect::kAbort);
  expect(Life::kReady, LifeEvent::kClose, Life::kClosing, LifeEffect::kFinalize);
  expect(Life::kClosing, LifeEvent::kFinalized, Life::kClosed, LifeEffect::kNone);
  expect(Life::kClosing, LifeEvent::kLimit, Life::kFailing, LifeEffect::kAbort);
  expect(Life::kFailing, LifeEvent::kAborted, Life::kAborted, LifeEffect::kNone);
  expect(Life::kFailing, LifeEvent::kLimit, Life::kStuck, LifeEffect::kReport);
  expect(Life::kStuck, LifeEvent::kAborted, Life::kAborted, LifeEffect::kNone);
}

// NL-1, NL-2, NL-3: over all sequences of six events.
TEST(NcclLife, NoSequenceAbortsTwiceOrComesBack) {
  std::function<void(Life, int, int, int)> walk = [&](Life state, int aborts, int finalizes, int depth) {
    EXPECT_LE(aborts, 1);
    EXPECT_LE(finalizes, 1);
    if (depth == 0) return;
    for (LifeEvent event : kEvents) {
      const LifeStep step = next(state, event);
      const bool ending = step.state == Life::kFailing || step.state == Life::kStuck || step.state == Life::kAborted;
      EXPECT_TRUE(aborts == 0 || ending) << life_name(step.state);
      EXPECT_TRUE(!is_over(state) || state == Life::kStuck || step.state == state) << "an end is an end";
      walk(step.state, aborts + (step.effect == LifeEffect::kAbort), finalizes + (step.effect == LifeEffect::kFinalize),
           depth - 1);
    }
  };
  walk(Life::kInit, 0, 0, 6);
  for (Life life : kLives) EXPECT_STRNE(life_name(life), "unknown");
}

// CLA-1, CLA-2
TEST(LauncherTest, LaunchesInTheOrderOfTurnsNotOfSubmission) {
  Launcher launcher;
  std::vector<int> order;
  std::promise<void> last;
  auto first = launcher.take_number(), second = launcher.take_number(), third = launcher.take_number(),
       fourth = launcher.take_number();
  launcher.submit(*fourth, [&] { order.push_back(4), last.set_value(); });
  launcher.submit(*second, [&] { order.push_back(2); });
  third.reset();  // given up
  launcher.submit(*first, [&] { order.push_back(1); });
  ASSERT_EQ(last.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(order, (std::vector{1, 2, 4}));
}

// CLA-3
TEST(LauncherTest, ATurnMayOutliveItsLauncher) {
  std::unique_ptr<Launcher::Number> before, turn;
  bool ran = false;
  {
    Launcher launcher;
    before = launcher.take_number();
    turn = launcher.take_number();
    launcher.submit(*turn, [&] { ran = true; });
  }
  EXPECT_FALSE(ran) << "the turn before it was neither used nor given up";
}

// CLA-3: an operation refers to its device, which the turn before it may outlive.
TEST(LauncherTest, WhatNeverRanGoesWithTheLauncher) {
  std::unique_ptr<Launcher::Number> before, turn, late;
  auto owned = std::make_shared<int>(), owned_late = std::make_shared<int>();
  const std::weak_ptr<int> left = owned, left_late = owned_late;
  Launcher launcher;
  before = launcher.take_number();
  turn = launcher.take_number();
  late = launcher.take_number();
  launcher.submit(*turn, [owned = std::move(owned)] { FAIL() << "the turn before it was neither used nor given up"; });
  EXPECT_FALSE(left.expired());
  launcher.stop();
  EXPECT_TRUE(left.expired());
  launcher.submit(*late, [owned_late = std::move(owned_late)] { FAIL() << "it was stopped"; });
  EXPECT_TRUE(left_late.expired());
}

// DM-1, DM-2
TEST(SlabPlanTest, BlocksNeverOverlapAndComeTogetherAgain) {
  SlabPlan plan;
  const std::size_t slab = plan.add_slab(1 << 20);
  std::mt19937 random(7);
  struct Out { SlabPlan::Address address; std::size_t bytes; };
  std::vector<Out> out;
  for (int round = 0; round < 5000; ++round) {
    if (out.empty() || random() % 5 < 3) {
      const std::size_t bytes = 1 + random() % 20'000;
      if (const auto place = plan.take(bytes)) {
        EXPECT_EQ(place->offset % SlabPlan::kAlignment, 0u);
        EXPECT_LE(place->offset + bytes, std::size_t(1 << 20));
        for (const Out& other : out)
          ASSERT_TRUE(place->offset + bytes <= other.address.offset ||
                      other.address.offset + other.bytes <= place->offset);
        out.push_back({*place, bytes});
        continue;
      }
    }
    if (out.empty()) continue;
    std::swap(out[random() % out.size()], out.back());
    plan.give_back(out.back().address);
    out.pop_back();
  }
  for (const Out& one : out) plan.give_back(one.address);
  EXPECT_EQ(plan.free_pieces(slab), 1u);
  EXPECT_TRUE(plan.take(1 << 20));
}

// DM-3
TEST(DeviceMemoryTest, SlabsAreKeptAndWhatIsLackingIsSaid) {
  auto& cuda = testing::FakeCuda::instance();
  cuda.reset();
  {
    DeviceMemory memory(testing::FakeCuda::api(), 0, 1 << 16);
    const auto one = memory.allocate(1000).value(), two = memory.allocate(1 << 18).value();
    EXPECT_NE(one.address.slab, two.address.slab) << "larger than a slab: one of its own";
    EXPECT_EQ(memory.slab(one.address.slab), one.pointer);
    memory.release(one);
    memory.release(two);
    EXPECT_EQ(cuda.counts().allocations, 2);
    EXPECT_TRUE(memory.allocate(1 << 18).ok());
    EXPECT_EQ(cuda.counts().allocations, 2) << "used again";
    cuda.faults.allocations_left = 0;
    const auto none = memory.allocate(1 << 19);
    ASSERT_FALSE(none.ok());
    EXPECT_NE(dynamic_cast<const OutOfMemoryError*>(&none.error()), nullptr);
    EXPECT_EQ(memory.allocate(0).value().pointer, nullptr);
  }
  EXPECT_EQ(cuda.counts(), testing::CudaCounts());
  cuda.reset();
}

NcclCard card(int gpu, std::uint64_t host = 1) {
  NcclCard card;
  card.able = 1;
  card.version = nccl_version(2, 28, 9);
  card.host = host;
  card.gpu[0] = static_cast<unsigned char>(gpu);
  return card;
}

// NC-4
TEST(NcclAgreementTest, SaysWhatIsMissingWhere) {
  NcclCard without = card(0);
  without.able = 0;
  std::strcpy(without.missing, "no GPU");
  const NcclCard cards[] = {card(0), without, card(2), without};
  const auto objection = agree(cards).objection;
  ASSERT_TRUE(objection);
  EXPECT_EQ(objection->reason, Reason::kBackend);
  EXPECT_EQ(objection->missing_ranks, (std::vector{1, 3}));
  EXPECT_EQ(objection->text, "the nccl backend is not there on all ranks: rank 1: no GPU; rank 3: no GPU");
}

TEST(NcclAgreementTest, VersionsAndSharedGpus) {
  NcclCard other = card(1);
  other.version = nccl_version(2, 27, 3);
  const NcclCard versions[] = {card(0), other};
  ASSERT_TRUE(agree(versions).objection);
  EXPECT_EQ(agree(versions).objection->reason, Reason::kMismatch);
  EXPECT_EQ(agree(versions).objection->text, "rank 0 has NCCL 2.28.9, rank 1 has NCCL 2.27.3");
  NcclCard shared[] = {card(5), card(5)};
  ASSERT_TRUE(agree(shared).objection);
  EXPECT_EQ(agree(shared).objection->reason, Reason::kBackend);
  std::strcpy(shared[1].host_id, "another");
  EXPECT_FALSE(agree(shared).objection) << "several ranks on one GPU, each with an NCCL_HOSTID of its own";
  const NcclCard apart[] = {card(5, 1), card(5, 2)};
  EXPECT_FALSE(agree(apart).objection);
}

// D.7: NCCL reads its variables once in a process, so what a group of one host would like holds for a later one of many
// too.
TEST(NcclAgreementTest, NoVariableSaysWhichInterfaceIsUsed) {
  using Variables = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(nccl_variables(), (Variables{{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}}));
}

TEST(NcclLibraryTest, LooksWhereItWasToldThenByNameThenInPythonsPackages) {
  EXPECT_EQ(nccl_candidates("/x/libnccl.so", {}), (std::vector<std::string>{"/x/libnccl.so"}))
      << "what was named is what is wanted";
  const auto all = nccl_candidates("", {.virtual_environment = "/venv", .conda_prefix = "", .home = "/home/u"});
  EXPECT_EQ(all.at(0), "libnccl.so.2");
  EXPECT_EQ(all.at(1), "/venv/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2");
  EXPECT_EQ(all.at(2), "/home/u/.local/lib/python3*/site-packages/nvidia/nccl/lib/libnccl.so.2");
}

TEST(NcclLibraryTest, TooOldNamesBothVersions) {
  EXPECT_EQ(version_objection(nccl_version(2, 26, 0)), "");
  EXPECT_EQ(version_objection(nccl_version(2, 21, 5)),
            "NCCL is too old: 2.21.5 was found, and 2.26.0 is the oldest that will do");
}

TEST(NcclLibraryTest, ALibraryThatIsNotThereOrNotNcclSaysSo) {
  const auto none = open_nccl("/nowhere/libnccl.so.2", {});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(std::string(none.error().what()).find("/nowhere/libnccl.so.2"), std::string::npos) << none.error().what();
  const auto other = open_nccl("libm.so.6", {});
  ASSERT_FALSE(other.ok());
  EXPECT_NE(std::string(other.error().what()).find("ncclGetVersion"), std::string::npos) << other.error().what();
}

}  // namespace
}  // namespace troupe::collective

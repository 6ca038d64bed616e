// What goes before the news of a death (DA-5).
#include <gtest/gtest.h>

#include "core/node/daemon/deaths/deaths.h"
#include "tests/net/net_fixture.h"
#include "tests/node/fake_messenger.h"

namespace troupe::node {
namespace {

using test::FakeMessenger;

constexpr ProcessId kOther{2, 7};

/// A daemon with one process, which has sent something that lies in its ring.
class DeathNewsTest : public ::testing::Test {
 protected:
  DeathNewsTest() {
    table_.add(wire::Role::kWorker, 7).state = NodeProcess::State::kAlive;
    net::testing::join(*endpoint_, *process_);
    handler_.message = [this](ProcessId, const net::FrameHeader&, ByteView) { notices_before_.push_back(told()); };
    EXPECT_TRUE(publish());
  }
  bool publish() {
    return process_->send(daemon_of(1), net::FrameHeader{.kind = std::uint8_t(wire::FrameKind::kControl)}, ByteView());
  }
  std::size_t told() const { return messenger_.notices.size(); }
  std::unique_ptr<Loop> loop_ = Loop::create().value();
  ProcessTable table_{1};
  FakeMessenger messenger_;
  std::unique_ptr<net::Endpoint> endpoint_ = net::testing::make_endpoint(daemon_of(1));
  std::unique_ptr<net::Endpoint> process_ = net::testing::make_endpoint({1, 1});
  net::testing::Calls handler_;
  std::vector<std::size_t> notices_before_;  // for each frame: how many notices had been sent when it came
  std::unique_ptr<StoreService> store_ = StoreService::create(*loop_, messenger_, {1, 16 << 20}).value();
  LogPumps logs_{*loop_, "/nonexistent", [](ProcessId, wire::LogLines) {}};
  StraySweep strays_{*loop_, "no session of this machine"};
  Deaths deaths_{{*loop_, table_, messenger_, *endpoint_, handler_, *store_, logs_, strays_},
                 WorkerHome::kProcesses,
                 "node",
                 {[](NodeProcess&) { return false; }, [](const NodeProcess&, const wire::ProcessDied&) {},
                  [](const NodeProcess&, const wire::ProcessDied&, bool) {}, [](ProcessId) {}, [](int) {},
                  [] { return std::vector<std::uint32_t>{}; }}};
};

TEST_F(DeathNewsTest, DA5_OfAProcessOfAnotherNodeComesAfterWhatWasPublishedBefore) {
  wire::ProcessDied death;
  death.process = kOther;
  EXPECT_TRUE(deaths_.on_remote(death));
  EXPECT_EQ(notices_before_, std::vector<std::size_t>{0});
  EXPECT_EQ(told(), 1u);
  EXPECT_FALSE(deaths_.on_remote(death)) << "told once";
  EXPECT_EQ(told(), 1u);
}

TEST_F(DeathNewsTest, DA5_DrainTakesAllThatIsThere) {
  for (int i = 0; i < 3 * kDrainBudget; ++i)
    ASSERT_TRUE(publish());
  while (process_->backlog(daemon_of(1)) > 0) process_->try_drain(handler_, 1), deaths_.drain_processes();
  deaths_.drain_processes();
  EXPECT_EQ(notices_before_.size(), 3u * kDrainBudget + 1);
}

}  // namespace
}  // namespace troupe::node

// Three daemons and a head as real processes, whose connections are cut by the test: nothing is lost, doubled or
// declared dead by a reset; of two that stay apart one is fenced; and whoever takes nothing costs no daemon its memory.
// REVIEW B.2, B.5.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "core/node/roles/test_cluster.h"
#include "tests/node/connections.h"
#include "tests/node/node_client.h"

namespace troupe::node::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

std::size_t resident_bytes(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  std::string word;
  while (file >> word)
    if (std::size_t kilobytes = 0; word == "VmRSS:" && file >> kilobytes) return kilobytes * 1024;
  return 0;
}

class SessionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/troupe-node-test-XXXXXX";
    root_ = ::mkdtemp(path);
    NodeOptions node;
    node.cpus = 2;
    node.object_store_memory = 64 << 20;
    Result<std::unique_ptr<TestCluster>> started = TestCluster::start({node, node, node}, root_);
    ASSERT_TRUE(started.ok()) << started.error().what();
    cluster_ = std::move(*started);
    driver_ = Client::driver(cluster_->node(0).socket_path);
    driver_->on_frame = [this](const Frame& frame) {
      if (!frame.is(wire::FrameKind::kReply) || frame.header.token < kFirst) return false;
      replies_.push_back(frame.header.token - kFirst);
      return true;
    };
    const auto info = driver_->request<wire::ClusterInfo>(kHead, wire::Method::kClusterInfo, wire::Empty{});
    ASSERT_TRUE(info.ok());
    for (const wire::NodeInfo& one : info->nodes)
      ports_[one.node] = std::atoi(one.address.c_str() + one.address.rfind(':') + 1);
  }
  void TearDown() override {
    driver_.reset();
    cluster_.reset();
    fs::remove_all(root_);
  }
  int pid(std::size_t index) const { return cluster_->node(index).pid; }
  int port(std::size_t index) const { return ports_.at(cluster_->node(index).node); }
  /// Whoever of the two has dialled.
  int cut_link(std::size_t a, std::size_t b) {
    return cut_connections(pid(a), port(b)) + cut_connections(pid(b), port(a));
  }

  wire::LeaseGranted lease_at(std::size_t index) {
    wire::LeaseWanted wanted;
    wanted.requester = driver_->self();
    wanted.request_id = index + 1;
    wanted.wanted = 1;
    wanted.lease_class.job = driver_->welcome().job;
    wanted.lease_class.scheduling = NodeAffinity{cluster_->node(index).node_id, false};
    Frame frame;
    for (int i = 0; i < 50; ++i) {  // its own daemon may not have seen that node yet
      driver_->notice(driver_->daemon(), wire::Method::kLeaseWanted, wanted);
      auto either = [](const Frame& f) {
        return f.is_notice(wire::Method::kLeaseGranted) || f.is_notice(wire::Method::kLeaseRefused);
      };
      EXPECT_TRUE(driver_->take(either, frame));
      if (frame.is_notice(wire::Method::kLeaseGranted)) break;
      driver_->until([] { return false; }, 20ms);
    }
    return frame.as<wire::LeaseGranted>();
  }
  void send_call(ProcessId worker, std::uint64_t number, std::string_view command) {
    driver_->send(worker, Client::header_of(wire::FrameKind::kCall, kFirst + number, 0),
                  std::as_bytes(std::span(command)));
  }
  void expect_replies(std::uint64_t count) {
    ASSERT_TRUE(driver_->until([&] { return replies_.size() >= count; }, 60s)) << replies_.size() << " of " << count;
    for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(replies_[i], i) << "in order, once";
  }

  static constexpr std::uint64_t kFirst = 1'000'000;
  std::string root_;
  std::unique_ptr<TestCluster> cluster_;
  std::unique_ptr<Client> driver_;
  std::map<std::uint32_t, int> ports_;
  std::vector<std::uint64_t> replies_;
};

TEST_F(SessionsTest, DL1_ResetsOfALinkLoseAndDoubleNothingAndKillNobody) {
  const ProcessId worker = lease_at(1).worker;
  constexpr std::uint64_t kCalls = 4000;
  for (std::uint64_t i = 0; i < kCalls; ++i) {
    send_call(worker, i, "echo something");
    if (i % 500 != 250) continue;
    ASSERT_TRUE(driver_->until([&] { return replies_.size() + 200 > i; }, 20s));
    ASSERT_GT(cut_link(0, 1), 0);
  }
  expect_replies(kCalls);
  Frame frame;
  EXPECT_FALSE(driver_->take_notice(wire::Method::kNodeDied, frame, 4s));
}

TEST_F(SessionsTest, MB6_OfTwoNodesThatStayApartTheHeadFencesOneAndTheOthersWorkOn) {
  const wire::LeaseGranted apart = lease_at(1), other = lease_at(2);
  ASSERT_EQ(*driver_->call(apart.worker, "echo before"), "before");
  ASSERT_EQ(*driver_->call(other.worker, "echo before"), "before");
  for (std::size_t node : {0, 1}) ASSERT_EQ(stop_listening(pid(node), port(node)), 1);
  ASSERT_GT(cut_link(0, 1), 0);
  send_call(apart.worker, 0, "echo never");
  Frame frame;
  ASSERT_TRUE(driver_->take_notice(wire::Method::kNodeDied, frame, 20s));
  EXPECT_EQ(frame.as<wire::NodeDied>().node, apart.worker.node) << "not the one with the head's daemon";
  EXPECT_EQ(*driver_->call(other.worker, "echo after"), "after");
  EXPECT_TRUE(driver_->until([&] { return cluster_->pids(1).empty(); }, 10s)) << "it is told, and ends";
  EXPECT_FALSE(driver_->take_notice(wire::Method::kNodeDied, frame, 500ms)) << "one verdict";
}

// Of what no link was ever given, it is known that it was not executed; of the rest it is not.
TEST_F(SessionsTest, DL2_WhatWasNeverSentToADeadNodeIsSaidSo) {
  const wire::LeaseGranted lease = lease_at(1);
  ASSERT_EQ(*driver_->call(lease.worker, "echo before"), "before");
  send_call(lease.worker, 0, "sleep");
  ASSERT_TRUE(driver_->request<wire::Empty>(daemon_of(lease.worker.node), wire::Method::kPing, wire::Empty{}).ok())
      << "it has arrived";
  for (std::size_t node : {0, 1}) ASSERT_EQ(stop_listening(pid(node), port(node)), 1);
  ASSERT_GT(cut_link(0, 1), 0);
  driver_->until([] { return false; }, 1s);  // the daemon has seen it
  for (std::uint64_t number : {1, 2, 3}) send_call(lease.worker, number, "echo never");
  Frame frame;
  ASSERT_TRUE(driver_->take_notice(wire::Method::kProcessDied, frame, 20s));
  const auto died = frame.as<wire::ProcessDied>();
  EXPECT_EQ(died.process, lease.worker);
  EXPECT_EQ(died.cause, DeathCause::kNodeDied);
  ASSERT_EQ(died.begun.size(), 1u);
  EXPECT_EQ(died.begun[0], (std::pair<ProcessId, std::uint64_t>(driver_->self(), kFirst)))
      << "the one before may have run";
  ASSERT_TRUE(driver_->take_notice(wire::Method::kNodeDied, frame)) << "and then the death itself";
}

TEST_F(SessionsTest, ML4_AFrozenWorkerCostsNoDaemonItsMemory) {
  const wire::LeaseGranted far = lease_at(1), near = lease_at(0);
  constexpr std::uint64_t kCalls = 3000;
  constexpr std::size_t kBytes = 100'000, kAllowed = std::size_t{96} << 20;  // of 300 MB
  std::uint64_t sent = 0;
  for (const wire::LeaseGranted& frozen : {far, near}) {
    ASSERT_EQ(*driver_->call(frozen.worker, "echo before"), "before");
    const std::size_t before[] = {resident_bytes(pid(0)), resident_bytes(pid(1))};
    ::kill(frozen.worker_pid, SIGSTOP);
    const std::string long_command(kBytes, 'x');
    for (std::uint64_t i = 0; i < kCalls; ++i) send_call(frozen.worker, sent + i, long_command);
    sent += kCalls;
    // Until nothing moves any more: what is not taken waits in the driver's own memory.
    std::size_t waits = driver_->endpoint().backlog(driver_->daemon()), last = waits + 1;
    for (int still = 0; still < 5; still = waits == last ? still + 1 : 0) {
      driver_->until([] { return false; }, 200ms);
      last = std::exchange(waits, driver_->endpoint().backlog(driver_->daemon()));
    }
    EXPECT_GT(waits, kCalls * kBytes / 2) << "the sender's own";
    for (std::size_t node : {0, 1}) EXPECT_LT(resident_bytes(pid(node)), before[node] + kAllowed) << "node " << node;
    ::kill(frozen.worker_pid, SIGCONT);
    expect_replies(sent);
  }
}

}  // namespace
}  // namespace troupe::node::test

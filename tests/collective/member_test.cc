// What Member makes of a communicator that throws where nobody promised an exception. The communicator is the test's.
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "collective/group/member.h"

namespace troupe::collective::detail {
namespace {

/// Has no memory: for an operation, or a message that is under way.
class Poor final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  Backend backend() const override { return Backend::kShm; }
  std::uint64_t epoch() const override { return 1; }
  bool run(const Operation&, Patience&) override {
    if (failure()) return false;
    throw std::bad_alloc();
  }
  bool agree_on(const Signature&, Patience&) override { return false; }
  void post(Transfer&) override {}
  bool pump() override {
    if (failure()) return false;
    throw std::bad_alloc();
  }
  bool wait_messages(Clock::time_point, Environment*) override { return !failure(); }
  void nudge() override {}
  bool stale() override { return false; }
  void fail(const Failure& failure) override {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
  }
  std::optional<Failure> failure() override {
    std::lock_guard lock(mutex_);
    return failure_;
  }
  std::unique_ptr<Communicator> split(int, int, Patience&) override { throw std::bad_alloc(); }

 private:
  std::mutex mutex_;
  std::optional<Failure> failure_;
};

struct Rank {
  Rank() {
    auto poor = std::make_unique<Poor>();
    communicator = poor.get();
    group = Group(std::make_shared<Member>(std::move(poor), MemberOptions{.group = "poor"}));
  }
  Poor* communicator;
  Group group;
};

/// The other ranks would wait for this one until their time is over; and nobody stands above the helper's thread.
TEST(MemberTest, GMB7_AnExceptionOnTheHelperFailsTheGroup) {
  Rank rank;
  Work work = rank.group.barrier_async();
  try {
    while (!work.wait(std::chrono::milliseconds(100))) {}  // with a timeout: the helper carries it out
    ADD_FAILURE() << "it cannot have succeeded";
  } catch (const CollectiveError& error) {
    EXPECT_NE(std::string(error.what()).find("bad_alloc"), std::string::npos) << error.what();
  }
  ASSERT_TRUE(rank.communicator->failure().has_value());
  EXPECT_EQ(rank.communicator->failure()->reason, Reason::kAborted);
  EXPECT_THROW(rank.group.barrier(), CollectiveError) << "and it goes on to say so";
}

TEST(MemberTest, GMB7_SoDoesOneOnTheThreadThatWaits) {
  Rank rank;
  EXPECT_THROW(rank.group.barrier(), std::bad_alloc);
  EXPECT_TRUE(rank.communicator->failure().has_value());
  Rank by_queue;
  EXPECT_THROW(by_queue.group.split(0, 0), std::bad_alloc);
  EXPECT_TRUE(by_queue.communicator->failure().has_value());
  Rank by_message;
  std::vector<float> data(4);
  EXPECT_THROW(by_message.group.recv(data, 1), std::bad_alloc);
  EXPECT_TRUE(by_message.communicator->failure().has_value());
}

}  // namespace
}  // namespace troupe::collective::detail

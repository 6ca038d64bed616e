// Fibers when stacks run out, and several threads of fibers with one queue.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "core/exec/fibers.h"
#include "core/exec/shared_queue.h"
#include "core/net/endpoint/endpoint.h"

namespace troupe::exec {
namespace {

using namespace std::chrono_literals;

class Blocker final : public ThreadBlocker, private net::Handler {
 public:
  net::Endpoint& endpoint() override { return *endpoint_; }
  net::Handler& handler() override { return *this; }

 private:
  void on_message(ProcessId, const net::FrameHeader&, ByteView) override {}
  void on_broken(ProcessId, const ErrorPtr&) override {}
  std::unique_ptr<net::Endpoint> endpoint_ = net::Endpoint::create({.self = {1, 1}}).value();
};

/// From now on this process gets so many bytes of memory more.
void limit_memory(std::size_t more) {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  ::getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * std::size_t(::sysconf(_SC_PAGESIZE)) + more;
  ::setrlimit(RLIMIT_AS, &limit);
}

/// Two methods wait, and there is no stack for a third fiber: the third method begins when the first has ended.
int run_out_of_stacks() {
  constexpr std::size_t kStack = std::size_t(1) << 30;
  Blocker blocker;
  FiberThread fibers(blocker, {.stack_size = kStack});
  std::atomic<Waiter*> first{nullptr}, second{nullptr};
  std::atomic<int> ended{0};
  auto wait_as = [&](std::atomic<Waiter*>& who) {
    Waiter waiter(blocker);
    who = &waiter;
    waiter.wait(kNever);
    ++ended;
  };
  fibers.post([&] { wait_as(first); });
  fibers.post([&] { wait_as(second); });
  fibers.post([&] {
    second.load()->notify();
    fibers.stop();
  });
  std::thread helper([&] {
    while (!second) std::this_thread::yield();
    first.load()->notify();
  });
  limit_memory(2 * kStack + kStack / 2);
  fibers.run();
  helper.join();
  return ended == 2 ? 0 : 1;
}

/// At f0736ec the second wait threw, with the role given up. (REVIEW A.17)
TEST(Fibers, FB4_WithoutAStackForAnotherFiberWorkWaitsForTheEndOfAMethod) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::alarm(30);
    ::_exit(run_out_of_stacks());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

/// At f0736ec every other method went to the thread that was blocked. (REVIEW A.11)
TEST(SharedQueue, SQU2_AMethodThatBlocksItsThreadHoldsUpNoOther) {
  constexpr int kWork = 10;
  Blocker blocker;
  FiberThread a(blocker, {}), b(blocker, {});
  SharedQueue queue;
  queue.add(a);
  queue.add(b);
  std::thread on_a([&] { a.run(); }), on_b([&] { b.run(); });
  std::promise<void> began, go, all;
  queue.post([&] {
    began.set_value();
    go.get_future().wait();
  });
  began.get_future().wait();
  std::atomic<int> done{0};
  for (int i = 0; i < kWork; ++i)
    queue.post([&] {
      if (++done == kWork) all.set_value();
    });
  EXPECT_EQ(all.get_future().wait_for(30s), std::future_status::ready) << done << " of " << kWork;
  go.set_value();
  a.stop();
  b.stop();
  on_a.join();
  on_b.join();
  EXPECT_EQ(done, kWork);
}

TEST(SharedQueue, SQU1_WorkIsTakenInTheOrderOfPosting) {
  Blocker blocker;
  FiberThread a(blocker, {}), b(blocker, {});
  SharedQueue queue;
  queue.add(a);
  queue.add(b);
  std::atomic<int> taken{0};
  std::promise<void> all;
  constexpr int kWork = 1000;
  std::mutex mutex;
  std::vector<int> order;
  for (int i = 0; i < kWork; ++i)
    queue.post([&, i] {
      std::lock_guard lock(mutex);
      order.push_back(i);
      if (++taken == kWork) all.set_value();
    });
  std::thread on_a([&] { a.run(); });
  EXPECT_EQ(all.get_future().wait_for(30s), std::future_status::ready) << "one thread alone takes all";
  a.stop();
  on_a.join();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  queue.close();
}

}  // namespace
}  // namespace troupe::exec

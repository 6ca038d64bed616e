// REVIEW H.15: at f0736ec a fiber that ran out of stack was a bare SIGSEGV.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "core/exec/fibers.h"
#include "core/exec/stack_overflow.h"
#include "core/net/endpoint/endpoint.h"

namespace troupe::exec {
namespace {

class Blocker final : public ThreadBlocker, private net::Handler {
 public:
  net::Endpoint& endpoint() override { return *endpoint_; }
  net::Handler& handler() override { return *this; }

 private:
  void on_message(ProcessId, const net::FrameHeader&, ByteView) override {}
  void on_broken(ProcessId, const ErrorPtr&) override {}
  std::unique_ptr<net::Endpoint> endpoint_ = net::Endpoint::create({.self = {1, 1}}).value();
};

[[gnu::noinline]] int recurse(int depth) {
  volatile char room[1024];
  room[0] = static_cast<char>(depth);
  return depth < 1'000'000 ? recurse(depth + 1) + room[0] : 0;
}

struct Ended {
  int status = 0;
  std::string said;
};
Ended in_child(const std::function<void()>& work) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::dup2(ends[1], 2);
    ::signal(SIGSEGV, SIG_DFL);  // the report of another test's fibers names their stacks (SO-1)
    Blocker blocker;
    FiberThread fibers(blocker, {.stack_size = 64 << 10});
    fibers.post([&] {
      work();
      fibers.stop();
    });
    fibers.run();
    ::_exit(0);
  }
  ::close(ends[1]);
  Ended ended;
  char buffer[512];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    ended.said.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  ::waitpid(child, &ended.status, 0);
  return ended;
}

TEST(StackOverflow, SO1_AFiberThatRecursesTooDeepSaysSoAndEndsBySigsegv) {
  const Ended ended = in_child([] { [[maybe_unused]] volatile int all = recurse(0); });
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV);
  EXPECT_NE(ended.said.find("stack of its fiber (64 KiB)"), std::string::npos) << ended.said;
  EXPECT_NE(ended.said.find("--troupe-stack-size"), std::string::npos);
}

TEST(StackOverflow, AnyOtherBadPointerIsNotCalledOne) {
  const Ended ended = in_child([] {
    volatile int* nowhere = nullptr;
    *nowhere = 1;
  });
  EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV);
  EXPECT_EQ(ended.said.find("stack of its fiber"), std::string::npos) << ended.said;
}

}  // namespace
}  // namespace troupe::exec

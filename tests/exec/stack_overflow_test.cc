// REVIEW H.15: at f0736ec a fiber that ran out of stack was a bare SIGSEGV.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
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

constexpr std::size_t kPage = 4096;
void* page_of(std::byte* at) { return at - reinterpret_cast<std::uintptr_t>(at) % kPage; }

constexpr std::size_t kLargeFrame = 100 << 10;
/// One frame that is larger than the stack by many pages, touched below the stack only: users' compilers need not probe
/// the pages between. `at_end`: at its low end, else some pages below the stack.
[[gnu::noinline, gnu::optimize("no-stack-clash-protection")]] int large_frame(bool at_end) {
  volatile char room[kLargeFrame];
  room[at_end ? 0 : kLargeFrame / 4] = 1;
  return room[at_end ? 0 : kLargeFrame / 4];
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

/// The guard was one page: such a frame jumped over it, into whatever lay below.
TEST(StackOverflow, GST1_AFrameOfManyPagesDoesNotJumpOverTheGuardArea) {
  for (const bool at_end : {false, true}) {
    const Ended ended = in_child([&] {
      // What lies below the stack may be written: nothing else stops a frame that passes the guard.
      auto* here = reinterpret_cast<std::byte*>(__builtin_frame_address(0));
      const auto mapped = [](std::byte* at) { return ::msync(page_of(at), kPage, MS_ASYNC) == 0; };
      for (std::size_t down = 0; down < 2 * kLargeFrame; down += kPage)
        if (!mapped(here - down))
          ::mmap(page_of(here - down), kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
                 -1, 0);
      [[maybe_unused]] volatile int all = large_frame(at_end);
    });
    EXPECT_TRUE(WIFSIGNALED(ended.status) && WTERMSIG(ended.status) == SIGSEGV) << "status " << ended.status;
    EXPECT_NE(ended.said.find("stack of its fiber (64 KiB)"), std::string::npos) << ended.said;
  }
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

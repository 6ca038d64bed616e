#include "core/exec/stack_overflow.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "core/exec/guarded_stack.h"

namespace troupe::exec {
namespace {

constexpr std::size_t kHandlerStack = 64 * 1024;
/// How far from the stack pointer the first touch of a function's frame may lie. (GST-1)
constexpr std::uintptr_t kFrameMax = kStackGuard;

/// The whole text, made beforehand: a signal handler formats nothing.
char text[256];
std::atomic<std::size_t> text_size{0};

std::uintptr_t stack_pointer(const void* context) {
  const auto* where = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(where->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return static_cast<std::uintptr_t>(where->uc_mcontext.sp);
#else
  (void)where;
  return 0;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const std::uintptr_t stack = stack_pointer(context);
  const bool at_the_stack = at + kFrameMax >= stack && at <= stack + kFrameMax;
  if (at_the_stack && info->si_code == SEGV_ACCERR) [[maybe_unused]] auto written = ::write(2, text, text_size.load());
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);  // the instruction runs again, and ends the process
}

void install(std::size_t stack_size) {
  static std::mutex installing;
  std::lock_guard lock(installing);
  struct sigaction now {};
  if (::sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;  // SO-1
  const int size =
      std::snprintf(text, sizeof(text),
                    "troupe: a method ran out of the stack of its fiber (%zu KiB): it recurses too deep or keeps "
                    "too much there; a larger one is had by --troupe-stack-size\n",
                    stack_size / 1024);
  text_size.store(static_cast<std::size_t>(size));
  struct sigaction report {};
  report.sa_sigaction = &on_fault;
  report.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGSEGV, &report, nullptr);
}

}  // namespace

StackOverflowReport::StackOverflowReport(std::size_t stack_size) : stack_(new std::byte[kHandlerStack]) {
  stack_t alternate{};
  alternate.ss_sp = stack_.get();
  alternate.ss_size = kHandlerStack;
  ::sigaltstack(&alternate, nullptr);
  install(stack_size);
}

StackOverflowReport::~StackOverflowReport() {
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
}

}  // namespace troupe::exec

// ChildProcess: this program once more, with other arguments, its output in a file, tied to its parent by a lifeline: a
// pipe that is its standard input, and that nobody writes to.
//
// It has a process group of its own: Ctrl-C at the terminal reaches the parent alone, which passes it on once.
// One thread at a time, any.
//
// CHP-1  It does not outlive its parent: interrupt_when_input_ends(), which it calls, has the kernel send it SIGINT
//        when the lifeline's other end is gone, however the parent ended.
// CHP-2  It is reaped: by running() that says no, or by the destructor, which kills one that still runs.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/envs/gym/owned_fd.h"

namespace rl {

class ChildProcess {
 public:
  /// arguments[0] is its name. RuntimeEnvError when the file cannot be written, or there is no room for a process.
  static troupe::Result<ChildProcess> start(const std::vector<std::string>& arguments,
                                            const std::filesystem::path& output);
  ChildProcess(ChildProcess&& other) = default;
  ChildProcess& operator=(ChildProcess&& other) = delete;
  ~ChildProcess();

  /// As Ctrl-C.
  void interrupt() const;
  [[nodiscard]] bool running();
  /// Once it runs no longer; 128 + n: signal n ended it.
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  ChildProcess(OwnedFd process, OwnedFd lifeline) : process_(std::move(process)), lifeline_(std::move(lifeline)) {}

  OwnedFd process_, lifeline_;  // a pidfd, none once it was reaped; the end that nobody writes to
  int exit_code_ = 0;
};

/// In the child: SIGINT when its standard input, a pipe, has no writer any more.
troupe::Status interrupt_when_input_ends();

}  // namespace rl

// HostProcess: the Python process that steps environments, as its parent sees it: started, rung, waited for with a
// deadline, ended. What it says is host_memory.h's business; what it means gym_env.h's.
//
//   start --> frames --> (ring --> wait)* --> end
//
// Its program is gym_host.py, whose text is compiled in and handed over as a memfd: an installed program needs no file
// beside it, a traceback still shows the lines (with `python3 -c` it would not), and `ps` shows a short command.
//
// Doorbells are pipes: a round trip through Python took 11.2 us, by eventfds 10.2 us, by a socket pair 15.1 us
// (medians, taken in turns); a pipe also ends when the other side does.
//
// No thread: what the child prints is read whenever the parent waits for it. It prints into a pipe that is read in
// every wait, so it never stays blocked while it is waited for.
//
// One thread at a time, whichever: nothing here depends on the thread that started it.
//
// Invariants
//   HPR-1  The child leads a process group of its own, which gets every signal.
//   HPR-2  The child and its group end when this process does, however that ends: the kernel sends them SIGKILL when
//          the last writer of the lifeline is gone, even when they are stopped, or busy in C (gym_host.py, which arms
//          it; before that, it reads the end of its commands). Not by PR_SET_PDEATHSIG, which fires when the *thread*
//          ends that started the child.
//   HPR-3  The child has no other descriptor of this process than those of host_memory.h; no other child has the
//          writing ends (they close on exec).
//   HPR-4  Every wait ends: by what is waited for, the child's death, the deadline, or cancel_fd.
//   HPR-5  end() leaves no process of the group and no zombie: TERM, `grace`, KILL.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

#include "apps/rl/envs/gym/output_tail.h"
#include "apps/rl/envs/gym/owned_fd.h"

namespace rl {

struct HostProcessOptions {
  std::string python;
  std::string label;     // shown by `ps`
  int memory_fd = -1;    // 3 in the child
  int cancel_fd = -1;    // readable: every wait ends
  std::chrono::milliseconds grace{1'000};
};

class HostProcess {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Heard { kBell, kGone, kLate, kCancelled, kGarbage };

  /// NotFoundError when there is no such program.
  static troupe::Result<std::unique_ptr<HostProcess>> start(const HostProcessOptions& options);
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;
  /// Lets it end by itself for `grace`, then as end().
  ~HostProcess();

  /// kBell: sent.
  Heard send_frame(std::string_view text, Time deadline);
  /// kBell: `text` is whole. kGarbage: longer than any hello.
  Heard receive_frame(std::string& text, Time deadline);
  void ring();
  Heard wait(Time deadline);
  void end();

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// "exited with code 1", "was ended by signal 9", once it has ended.
  [[nodiscard]] const std::string& how_it_ended() const { return how_; }
  /// The last lines that it printed, oldest first.
  [[nodiscard]] std::vector<std::string> tail(std::size_t lines) const { return tail_.lines(lines); }

 private:
  explicit HostProcess(const HostProcessOptions& options) : options_(options) {}
  troupe::Status spawn();
  Heard poll_once(int fd, short events, Time deadline);
  Heard receive_bytes(char* into, std::size_t count, Time deadline);
  bool ended_by(Time deadline);
  void drain();
  void reap();

  HostProcessOptions options_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  OwnedFd pidfd_, commands_, commands_far_end_, answers_, output_, lifeline_;
  OutputTail tail_;
  std::string how_;
};

}  // namespace rl

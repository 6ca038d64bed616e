// Threads of the library's own in a program of somebody else's.
//
// Invariants
//   TH-1  Such a thread takes no signal: a handler of the user's runs on the user's threads, where EINTR and what the
//         handler touches are expected. A thread inherits the mask of the one that starts it, so that is where signals
//         are blocked: blocked first thing in the new thread, one could still arrive before.
//   TH-2  The calling thread has its own mask again afterwards, also when no thread could be had.
//
// Thread rule: any thread; the mask is that of the calling one. Not for threads that run the user's code.
#pragma once
#include <signal.h>

#include <thread>
#include <utility>

namespace troupe {

/// No signal reaches the calling thread while this lives. A scope: made and gone on the same thread, the last one
/// first.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// A thread that takes no signal (TH-1). std::system_error: no thread could be had.
template <class Work> std::thread start_thread(Work&& work) {
  const SignalsBlocked blocked;
  return std::thread(std::forward<Work>(work));
}

}  // namespace troupe

#include "collective/side_threads.h"

#include <pthread.h>
#include <signal.h>

#include "core/base/log.h"

namespace troupe::collective {

void SideThreads::join_finished() {
  for (auto one = threads_.begin(); one != threads_.end();) {
    if (!*one->over) {
      ++one;
      continue;
    }
    one->thread.join();
    one = threads_.erase(one);
  }
}

void SideThreads::run(std::string what, std::function<void()> work) {
  std::lock_guard lock(shared_->mutex);
  join_finished();
  auto over = std::make_shared<bool>(false);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // the user's signals are for the user's threads
  std::thread thread([shared = shared_, over, work = std::move(work)]() mutable {
    work();
    work = nullptr;  // what it owns goes before it counts as over
    std::lock_guard lock(shared->mutex);
    *over = true;
    shared->changed.notify_all();
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  threads_.push_back({std::move(what), std::move(thread), std::move(over)});
}

bool SideThreads::await_idle(std::chrono::nanoseconds limit) {
  std::unique_lock lock(shared_->mutex);
  const bool idle = shared_->changed.wait_for(lock, limit, [&] {
    join_finished();
    return threads_.empty();
  });
  for (const One& one : threads_) write_log(LogLevel::kError, "{} has not returned: its thread is left", one.what);
  return idle;
}

SideThreads::~SideThreads() {
  for (One& one : threads_) one.thread.join();
}

}  // namespace troupe::collective

#include "collective/device/side_threads.h"

#include "core/base/log.h"
#include "core/base/thread.h"

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
  std::thread thread = start_thread([shared = shared_, over, work = std::move(work)]() mutable {
    work();
    work = nullptr;  // what it owns goes before it counts as over
    std::lock_guard lock(shared->mutex);
    *over = true;
    shared->changed.notify_all();
  });
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

#include "core/exec/shared_queue.h"

#include <utility>

namespace troupe::exec {

void SharedQueue::post(std::function<void()> work) {
  std::lock_guard lock(mutex_);
  work_.push_back(std::move(work));
  ask();
}

void SharedQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

/// SQU-2. Lock held.
void SharedQueue::ask() {
  if (closed_) return;
  for (std::size_t i = 0; i < takers_.size(); ++i) {
    const std::size_t at = (next_ + i) % takers_.size();
    if (takers_[at].asked || !takers_[at].thread->idle()) continue;
    next_ = at + 1;
    return ask(at);
  }
  for (std::size_t at = 0; at < takers_.size(); ++at)
    if (!takers_[at].asked) ask(at);
}

void SharedQueue::ask(std::size_t taker) {
  takers_[taker].asked = true;
  takers_[taker].thread->post([this, taker] { take(taker); });
}

void SharedQueue::take(std::size_t taker) {
  std::function<void()> work;
  {
    std::lock_guard lock(mutex_);
    takers_[taker].asked = false;
    if (work_.empty()) return;
    work = std::move(work_.front());
    work_.pop_front();
    if (!work_.empty()) ask();
  }
  work();
}

}  // namespace troupe::exec

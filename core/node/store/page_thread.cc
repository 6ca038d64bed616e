#include "core/node/store/page_thread.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "core/base/thread.h"

namespace troupe::node {

// Two threads: a priority that was lowered cannot be raised again without privileges.
PageThread::PageThread(store::Arena& arena, Hooks hooks) : arena_(arena), hooks_(std::move(hooks)) {
  wanted_thread_ = start_thread([this] { make_wanted(); });
  ahead_thread_ = start_thread([this] { touch_ahead(); });
}

PageThread::~PageThread() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    stop_wanted_ = stop_ahead_ = true;
  }
  wanted_wake_.notify_all();
  ahead_wake_.notify_all();
  wanted_thread_.join();
  ahead_thread_.join();
}

void PageThread::want(store::PageTicket ticket, store::Range range) {
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back({ticket, range});
    stop_ahead_ = true;  // PGT-2
  }
  wanted_wake_.notify_one();
}

void PageThread::drop(store::PageTicket ticket) {
  std::lock_guard lock(mutex_);
  std::erase_if(jobs_, [&](const Job& job) { return job.ticket == ticket; });
  if (at_ == ticket) stop_wanted_ = true;
  go_on_ahead();  // nobody had begun with it
}

void PageThread::go_on_ahead() {
  if (!jobs_.empty() || at_) return;
  stop_ahead_ = false;
  ahead_wake_.notify_one();
}

void PageThread::ahead(store::Range range) {
  {
    std::lock_guard lock(mutex_);
    ahead_ = range;
  }
  ahead_wake_.notify_one();
}

void PageThread::make_wanted() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_wake_.wait(lock, [this] { return stop_ || !jobs_.empty(); });  // waits for work or the end
    if (stop_) return;
    Job job = jobs_.front();
    jobs_.pop_front();
    at_ = job.ticket;
    stop_wanted_ = false;
    lock.unlock();
    const store::Range piece{job.left.offset, std::min(job.left.size, kPiece)};
    const Status status = arena_.reserve(piece, &stop_wanted_);
    job.left = {piece.end(), job.left.size - piece.size};
    const bool dropped = stop_wanted_;
    if (!dropped && (!status.ok() || job.left.size == 0)) hooks_.made(job.ticket, status);
    lock.lock();
    at_.reset();
    if (stop_) return;
    if (!dropped && status.ok() && job.left.size > 0) jobs_.push_back(job);
    go_on_ahead();
  }
}

void PageThread::touch_ahead() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), 10);  // never before the work itself
  std::unique_lock lock(mutex_);
  while (true) {
    ahead_wake_.wait(lock, [this] { return stop_ || (ahead_ && !stop_ahead_); });  // waits for work or the end
    if (stop_) return;
    const store::Range range = *ahead_;
    lock.unlock();
    const Status status = arena_.populate(range, &stop_ahead_);
    lock.lock();
    if (stop_) return;
    if (stop_ahead_) continue;  // interrupted: what is left is touched later
    ahead_.reset();
    lock.unlock();
    hooks_.ahead_done(status);
    lock.lock();
  }
}

}  // namespace troupe::node

#include "core/node/base/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::node {
namespace {
constexpr int kEventsPerRound = 64;
}

Result<std::unique_ptr<Loop>> Loop::create(Clock clock) {
  std::unique_ptr<Loop> loop(new Loop(std::move(clock)));
  loop->epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  loop->event_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (loop->epoll_.get() < 0 || loop->event_.get() < 0)
    return make_error<Error>(std::string("epoll: ") + std::strerror(errno));
  Loop* self = loop.get();
  loop->watch(loop->event_.get(), EPOLLIN, [self](std::uint32_t) {
    std::uint64_t count = 0;
    [[maybe_unused]] ssize_t n = ::read(self->event_.get(), &count, sizeof(count));
  });
  return loop;
}

void Loop::watch(int fd, std::uint32_t events, FdHandler handler) {
  auto watched = std::make_shared<Watched>(Watched{next_generation_++, std::move(handler)});
  epoll_event event{};
  event.events = events;
  event.data.u64 = (watched->generation & 0xffffffff) << 32 | static_cast<std::uint32_t>(fd);
  const int op = watched_.contains(fd) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  ::epoll_ctl(epoll_.get(), op, fd, &event);
  watched_[fd] = std::move(watched);
}

void Loop::rearm(int fd, std::uint32_t events) {
  auto it = watched_.find(fd);
  if (it == watched_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = (it->second->generation & 0xffffffff) << 32 | static_cast<std::uint32_t>(fd);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Loop::forget(int fd) {
  if (watched_.erase(fd) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

Loop::TimerId Loop::at(TimePoint when, Work work) {
  const TimerId id{when, next_timer_++};
  timers_.emplace(id, std::move(work));
  return id;
}

void Loop::post(Work work) {
  {
    std::lock_guard lock(mutex_);
    if (ended_) return;
    posted_.push_back(std::move(work));
    if (posted_.size() > 1) return;
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] ssize_t n = ::write(event_.get(), &one, sizeof(one));
}

void Loop::quit(int code) {
  post([this, code] {
    quit_ = true;
    code_ = code;
  });
}

bool Loop::run_posted() {
  std::vector<Work> work;
  {
    std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (Work& w : work) w();
  return !work.empty();
}

bool Loop::run_timers() {
  bool any = false;
  const TimePoint now = clock_();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    Work work = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    work();
    any = true;
  }
  return any;
}

int Loop::until_next_timer() const {
  if (timers_.empty()) return -1;  // waits for an event: timers and posts ring
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - clock_());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

void Loop::wait(int timeout_ms) {
  epoll_event events[kEventsPerRound];
  const int n = ::epoll_wait(epoll_.get(), events, kEventsPerRound, timeout_ms);
  for (int i = 0; i < n; ++i) {
    const int fd = static_cast<int>(events[i].data.u64 & 0xffffffff);
    auto it = watched_.find(fd);
    if (it == watched_.end() || (it->second->generation & 0xffffffff) != events[i].data.u64 >> 32) continue;
    const std::shared_ptr<Watched> kept = it->second;  // the handler may forget itself
    kept->handler(events[i].events);
  }
}

void Loop::pass() {
  run_posted();
  run_timers();
  wait(0);
}

int Loop::run(const std::function<bool()>& poll, Duration spin) {
  TimePoint busy_until{};
  while (!quit_) {
    bool busy = poll();
    busy |= run_posted();
    busy |= run_timers();
    if (quit_) break;
    const TimePoint now = clock_();
    if (busy) busy_until = now + std::chrono::duration_cast<TimePoint::duration>(spin);
    wait(busy || now < busy_until ? 0 : until_next_timer());
  }
  std::lock_guard lock(mutex_);
  ended_ = true;
  posted_.clear();
  return code_;
}

}  // namespace troupe::node

#include "core/net/base/loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/thread.h"

namespace troupe::net {
namespace {

// An epoll event carries the descriptor and the generation of its watch: a number that the kernel gave out again within
// one round is not mistaken for its predecessor (NSL-1).
std::uint64_t key_of(int fd, std::uint64_t generation) { return generation << 32 | std::uint32_t(fd); }

constexpr int kEventsMax = 64;

}  // namespace

Result<std::unique_ptr<SocketLoop>> SocketLoop::start(const char* name) {
  std::unique_ptr<SocketLoop> loop(new SocketLoop);
  loop->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  loop->event_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (loop->epoll_.get() < 0 || loop->event_.get() < 0) {
    return Error(std::string("no descriptor for a socket loop: ") + std::strerror(errno));
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key_of(loop->event_.get(), 0);
  if (::epoll_ctl(loop->epoll_.get(), EPOLL_CTL_ADD, loop->event_.get(), &event) != 0) {
    return Error(std::string("epoll_ctl: ") + std::strerror(errno));
  }
  loop->thread_ = start_thread([raw = loop.get()] { raw->run(); });
  pthread_setname_np(loop->thread_.native_handle(), name);
  return loop;
}

SocketLoop::~SocketLoop() { stop(); }

void SocketLoop::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] auto ignored = ::write(event_.get(), &one, sizeof one);
  thread_.join();
  // Destroyed outside of the lock: destructors of handlers may post.
  std::vector<Work> rest;
  {
    std::lock_guard lock(mutex_);
    rest.swap(posted_);
  }
  rest.clear();
  timers_.clear();
  watched_.clear();
}

void SocketLoop::post(Work work) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return;
    wake = posted_.empty();
    posted_.push_back(std::move(work));
  }
  if (!wake) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] auto ignored = ::write(event_.get(), &one, sizeof one);
}

void SocketLoop::watch(int fd, std::uint32_t events, FdHandler handler) {
  const std::uint64_t generation = next_generation_++ & 0x7fffffff;
  auto entry = std::make_shared<Watched>();
  entry->generation = generation;
  entry->handler = std::move(handler);
  const bool known = watched_.contains(fd);
  watched_[fd] = std::move(entry);
  epoll_event event{};
  event.events = events;
  event.data.u64 = key_of(fd, generation);
  ::epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
}

void SocketLoop::rearm(int fd, std::uint32_t events) {
  auto found = watched_.find(fd);
  if (found == watched_.end()) return;
  epoll_event event{};
  event.events = events;
  event.data.u64 = key_of(fd, found->second->generation);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void SocketLoop::forget(int fd) {
  if (watched_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

SocketLoop::TimerId SocketLoop::at(SteadyTime when, Work work) {
  TimerId id{when, next_timer_++};
  timers_.emplace(id, std::move(work));
  return id;
}

int SocketLoop::until_next_timer() const {
  if (timers_.empty()) return -1;
  const auto left = timers_.begin()->first.first - std::chrono::steady_clock::now();
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return int(std::clamp<std::int64_t>(ms, 0, 60'000));
}

void SocketLoop::dispatch(std::uint64_t key, std::uint32_t events) {
  const int fd = int(std::uint32_t(key));
  if (fd == event_.get()) {
    std::uint64_t count = 0;
    [[maybe_unused]] auto ignored = ::read(fd, &count, sizeof count);
    return;
  }
  auto found = watched_.find(fd);
  if (found == watched_.end() || key_of(fd, found->second->generation) != key) return;
  auto keep = found->second;  // the handler may forget itself
  keep->handler(events);
}

void SocketLoop::run_posted() {
  std::vector<Work> now;
  {
    std::lock_guard lock(mutex_);
    now.swap(posted_);
  }
  for (auto& work : now) work();
}

void SocketLoop::run_timers() {
  const auto now = std::chrono::steady_clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    Work work = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    work();
  }
}

void SocketLoop::run() {
  std::array<epoll_event, kEventsMax> events;
  while (true) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsMax, until_next_timer());
    for (int i = 0; i < count; ++i) dispatch(events[std::size_t(i)].data.u64, events[std::size_t(i)].events);
    run_posted();
    run_timers();
    std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
}

}  // namespace troupe::net

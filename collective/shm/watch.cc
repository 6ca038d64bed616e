#include "collective/shm/watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "collective/shm/segment.h"
#include "core/base/thread.h"

namespace troupe::collective {

bool Watch::add(int who, int pid, std::uint64_t started) {
  UniqueFd fd(int(::syscall(SYS_pidfd_open, pid, 0)));
  const bool gone = !fd && (errno == ESRCH || (::kill(pid, 0) != 0 && errno == ESRCH));
  const std::uint64_t present = gone || started == 0 ? 0 : process_start_time(pid);  // 0: that could not be read
  if (gone || (present != 0 && present != started)) {  // WA-1
    died_(who);
    return true;
  }
  if (!fd || (started != 0 && present == 0)) return false;  // WA-3
  std::lock_guard lock(mutex_);
  if (stopping_) return true;
  if (!begin()) return false;  // WA-3
  fresh_.push_back({who, std::move(fd)});
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  return true;
}

/// Lock held. The bell comes first: the thread sleeps on it, and stop() waits for the thread.
bool Watch::begin() {
  if (thread_.joinable()) return true;
  if (!wake_) wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return false;
  try {
    thread_ = start_thread([this] { loop(); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void Watch::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    if (wake_) {
      const std::uint64_t one = 1;
      (void)!::write(wake_.get(), &one, sizeof one);
    }
  }
  if (thread_.joinable()) thread_.join();
}

void Watch::loop() {
  std::vector<Watched> watched;
  std::vector<pollfd> polled;
  for (;;) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (Watched& one : fresh_) watched.push_back(std::move(one));
      fresh_.clear();
    }
    polled.assign(1, {wake_.get(), POLLIN, 0});
    for (const Watched& one : watched) polled.push_back({one.fd.get(), POLLIN, 0});
    if (::poll(polled.data(), polled.size(), -1) <= 0) continue;
    std::uint64_t count = 0;
    if (polled[0].revents) (void)!::read(wake_.get(), &count, sizeof count);
    for (std::size_t i = polled.size(); i-- > 1;) {
      if (polled[i].revents == 0) continue;
      const int who = watched[i - 1].who;
      watched.erase(watched.begin() + std::ptrdiff_t(i - 1));
      died_(who);
    }
  }
}

}  // namespace troupe::collective

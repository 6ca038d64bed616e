// Ranks for tests: as threads of this process, or as forked processes. Each runs the same function with its own Group.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/member.h"
#include "collective/shm_communicator.h"

namespace troupe::collective::testing {

struct Setting {
  int ranks = 2;
  Duration timeout = std::chrono::seconds(60);
  std::size_t slot_bytes = 0;
};

inline std::shared_ptr<ShmSegment> make_segment(const Setting& setting) {
  return *ShmSegment::create({.ranks = setting.ranks, .epoch = 1, .key = 0x1234567, .slot_bytes = setting.slot_bytes});
}

inline Group make_group(const std::shared_ptr<ShmSegment>& segment, int rank, const Setting& setting) {
  return Group(std::make_shared<detail::Member>(std::make_unique<ShmCommunicator>(segment, rank), detail::MemberOptions{.group = "test", .timeout = setting.timeout, .environment = nullptr}));
}

/// Runs `body` as every rank, on a thread each, and waits for all.
inline void on_threads(const Setting& setting, const std::function<void(Group)>& body) {
  const auto segment = make_segment(setting);
  std::vector<std::thread> threads;
  for (int r = 0; r < setting.ranks; ++r) threads.emplace_back([&, r] { body(make_group(segment, r, setting)); });
  for (auto& thread : threads) thread.join();
}

/// Processes that run `body` and end with its value; pid() for those who want to do something to them.
class Processes {
 public:
  Processes(const Setting& setting, const std::function<int(Group)>& body) : segment_(make_segment(setting)) {
    for (int r = 0; r < setting.ranks; ++r) {
      const int pid = ::fork();
      if (pid == 0) {
        ::alarm(120);
        int code = 99;
        try {
          code = body(make_group(segment_, r, setting));
        } catch (const std::exception& error) {
          std::fprintf(stderr, "rank %d: %s\n", r, error.what());
        }
        ::_exit(code);
      }
      pids_.push_back(pid);
    }
  }
  ~Processes() {
    for (int& pid : pids_)
      if (pid > 0) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int pid(int rank) const { return pids_[std::size_t(rank)]; }
  ShmSegment& segment() { return *segment_; }
  /// The value of its body; 100 + signal when it was killed.
  int wait(int rank) {
    int status = 0;
    ::waitpid(std::exchange(pids_[std::size_t(rank)], 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
  }

 private:
  std::shared_ptr<ShmSegment> segment_;
  std::vector<int> pids_;
};

}  // namespace troupe::collective::testing

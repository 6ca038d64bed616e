// Watch: tells when one of a group's processes is gone, by pidfd. Its thread sleeps in poll and starts with the first
// process.
//
// Invariants
//   WA-1  A process is named by number and start time: a number that was given anew is a death.
//   WA-2  After stop() nothing is called any more.
//   WA-3  Without a descriptor or a thread to watch with, nobody is dead for that: add() says that it could not, and
//         the next one begins anew with whatever was lacking.
// Thread rule: add() from any thread; `died` is called on the watch's own thread, or by add() when it is dead already.
#pragma once
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/fd.h"

namespace troupe::collective {

class Watch {
 public:
  explicit Watch(std::function<void(int who)> died) : died_(std::move(died)) {}
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// False: it cannot be watched now (WA-3); ask again later.
  bool add(int who, int pid, std::uint64_t started);
  void stop();

 private:
  struct Watched { int who; UniqueFd fd; };
  bool begin();
  void loop();
  std::function<void(int)> died_;
  std::mutex mutex_;
  std::vector<Watched> fresh_;
  UniqueFd wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace troupe::collective

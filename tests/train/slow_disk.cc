// A disk that is slow, or full, for a program that was not made for the test: loaded before the C library (LD_PRELOAD),
// it stands in front of fsync for files of checkpoints.
//
//   TROUPE_TEST_FSYNC_SECONDS=N   each takes so long
//   TROUPE_TEST_FSYNC_FULL=N      the first N of a process fail: no space left
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

long number(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atol(text) : 0;
}

bool is_checkpoint(int fd) {
  char path[4096] = {};
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1);
  return size > 0 && std::strstr(path, ".safetensors") != nullptr;
}

}  // namespace

extern "C" int fsync(int fd) {
  static std::atomic<long> full{number("TROUPE_TEST_FSYNC_FULL")};
  if (is_checkpoint(fd)) {
    if (full.fetch_sub(1) > 0) {
      errno = ENOSPC;
      return -1;
    }
    ::sleep(static_cast<unsigned>(number("TROUPE_TEST_FSYNC_SECONDS")));
  }
  static const auto real = reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, "fsync"));
  return real(fd);
}

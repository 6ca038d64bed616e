// A call to the file system that fails, or at which the process is killed or stopped, for a program that was not made
// for it: loaded before the C library (LD_PRELOAD).
//
//   DATAGEN_DISTURB="CALL PATTERN NTH ACTION"   the NTH CALL (from the NTH on: "NTH+") on a file whose path is like
//                                               PATTERN (fnmatch), before it is made: KILL, STOP, SLOW and
//                                               milliseconds that it takes longer, or the number of the errno that it
//                                               fails with; a writev is a write
//   DATAGEN_DISTURB_COUNT=FILE                  has a byte for each such call of all processes; FILE.pid: the process
//                                               of the last one
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

namespace {

struct Rule {
  std::string call, pattern, nth, action;
};

const Rule& rule() {
  static const Rule the_one = [] {
    const char* text = std::getenv("DATAGEN_DISTURB");
    std::istringstream words(text != nullptr ? text : "");
    Rule out;
    words >> out.call >> out.pattern >> out.nth >> out.action;
    return out;
  }();
  return the_one;
}

int open_raw(const std::string& path, int flags) {
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.c_str(), flags | O_CLOEXEC | O_CREAT, 0600));
}

/// How many calls there have been, this one included. An append and the offset behind it are one step of the kernel.
long count(const std::string& file) {
  const int fd = open_raw(file, O_WRONLY | O_APPEND);
  ::syscall(SYS_write, fd, "x", 1);
  const long out = ::syscall(SYS_lseek, fd, 0, SEEK_CUR);
  ::close(fd);
  return out;
}

/// True: the call fails, with errno.
bool fails(std::string_view call, const char* path) {
  if (rule().call != call || ::fnmatch(rule().pattern.c_str(), path, 0) != 0) return false;
  const std::string file = std::getenv("DATAGEN_DISTURB_COUNT");
  const long now = count(file), nth = std::atol(rule().nth.c_str());
  if (now != nth && !(now > nth && rule().nth.ends_with('+'))) return false;
  // In one step over what another one wrote: each may be killed at any moment, because the others have failed.
  char pid[12];
  const int length = std::snprintf(pid, sizeof pid, "%10d", ::getpid());
  const int fd = open_raw(file + ".pid", O_WRONLY);
  ::syscall(SYS_write, fd, pid, length);
  ::close(fd);
  if (rule().action == "KILL") ::kill(::getpid(), SIGKILL);
  if (rule().action == "STOP") return ::kill(::getpid(), SIGSTOP) != 0;
  if (rule().action.starts_with("SLOW")) return ::usleep(1000 * std::atoi(rule().action.c_str() + 4)) != 0;
  errno = std::atoi(rule().action.c_str());
  return true;
}

bool fails(std::string_view call, int fd) {
  if (rule().call != call) return false;
  char path[4096] = {};
  return ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1) > 0 && fails(call, path);
}

template <class F> F* next(const char* name) { return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name)); }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  static const auto real = next<int(const char*, int, ...)>("open");
  return fails("open", path) ? -1 : real(path, flags, mode);
}
int mkdir(const char* path, mode_t mode) {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return fails("mkdir", path) ? -1 : real(path, mode);
}
ssize_t read(int fd, void* bytes, size_t size) {
  static const auto real = next<ssize_t(int, void*, size_t)>("read");
  return fails("read", fd) ? -1 : real(fd, bytes, size);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  return fails("write", fd) ? -1 : real(fd, bytes, size);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto real = next<ssize_t(int, const iovec*, int)>("writev");
  return fails("write", fd) ? -1 : real(fd, parts, count);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  static const auto real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return fails("pwrite", fd) ? -1 : real(fd, bytes, size, offset);
}
int fsync(int fd) {
  static const auto real = next<int(int)>("fsync");
  return fails("fsync", fd) ? -1 : real(fd);
}
int fdatasync(int fd) {
  static const auto real = next<int(int)>("fdatasync");
  return fails("fdatasync", fd) ? -1 : real(fd);
}
int rename(const char* from, const char* to) {
  static const auto real = next<int(const char*, const char*)>("rename");
  return fails("rename", from) ? -1 : real(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  static const auto real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return fails("renameat2", from) ? -1 : real(from_folder, from, to_folder, to, flags);
}
int link(const char* from, const char* to) {
  static const auto real = next<int(const char*, const char*)>("link");
  return fails("link", from) ? -1 : real(from, to);
}
int unlink(const char* path) {
  static const auto real = next<int(const char*)>("unlink");
  return fails("unlink", path) ? -1 : real(path);
}

}  // extern "C"

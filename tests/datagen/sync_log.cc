// What a program does to its files, in order, for a test that asks what a loss of power would leave: loaded before the
// C library (LD_PRELOAD), it writes a line to the file that TROUPE_TEST_SYNC_LOG names,
//
//   sync-begin PATH        before fsync or fdatasync
//   sync PATH              after it
//   name FROM TO           after rename, renameat2 or link
//   append PATH NAME...    before a journal is written to: the names of shards that are in what is written
//
// Threads and processes share the log; a line is one write.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

namespace {

template <class F> F* real(const char* name) { return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name)); }

void log(const std::string& line) {
  const char* path = std::getenv("TROUPE_TEST_SYNC_LOG");
  const int fd = path != nullptr ? ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
  if (fd < 0) return;
  const std::string whole = line + "\n";
  (void)!::write(fd, whole.data(), whole.size());
  ::close(fd);
}

std::string path_of(int fd) {
  char path[4096] = {};
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, sizeof path - 1);
  std::string_view out(path, static_cast<std::size_t>(size < 0 ? 0 : size));
  constexpr std::string_view kGone = " (deleted)";  // a journal has another name than it was opened under
  if (out.ends_with(kGone)) out.remove_suffix(kGone.size());
  return std::string(out);
}

int logged_sync(const char* name, int fd) {
  const std::string path = path_of(fd);
  log("sync-begin " + path);
  const int code = real<int(int)>(name)(fd);
  if (code == 0) log("sync " + path);
  return code;
}

int logged_name(int code, const char* from, const char* to) {
  if (code == 0) log(std::string("name ") + from + " " + to);
  return code;
}

ssize_t logged_append(const char* name, int fd, const void* bytes, std::size_t size, off_t at) {
  const std::string path = path_of(fd);
  if (path.find("/manifest/") != std::string::npos) {
    std::string line = "append " + path;
    const std::string_view all(static_cast<const char*>(bytes), size);
    for (std::size_t i = all.find("data/"); i != std::string_view::npos; i = all.find("data/", i + 1))
      line += " " + std::string(all.substr(i, all.find('\0', i) - i));
    log(line);
  }
  return real<ssize_t(int, const void*, std::size_t, off_t)>(name)(fd, bytes, size, at);
}

}  // namespace

extern "C" {
int fsync(int fd) { return logged_sync("fsync", fd); }
int fdatasync(int fd) { return logged_sync("fdatasync", fd); }
int rename(const char* from, const char* to) noexcept {
  return logged_name(real<int(const char*, const char*)>("rename")(from, to), from, to);
}
int link(const char* from, const char* to) noexcept {
  return logged_name(real<int(const char*, const char*)>("link")(from, to), from, to);
}
int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  using F = int(int, const char*, int, const char*, unsigned);
  return logged_name(real<F>("renameat2")(from_at, from, to_at, to, flags), from, to);
}
ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t at) {
  return logged_append("pwrite", fd, bytes, size, at);
}
ssize_t pwrite64(int fd, const void* bytes, std::size_t size, off_t at) {
  return logged_append("pwrite64", fd, bytes, size, at);
}
}

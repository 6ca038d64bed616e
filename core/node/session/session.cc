#include "core/node/session/session.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <fstream>

#include "core/node/launcher/strays.h"

namespace troupe::node {
namespace fs = std::filesystem;
namespace {

constexpr int kLockLook = 10;  // milliseconds

std::string hex_random(std::size_t bytes) {
  std::string result;
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned char c = 0;
    if (::getrandom(&c, 1, 0) != 1) c = static_cast<unsigned char>(::getpid() >> (i % 3));
    static constexpr char kDigits[] = "0123456789abcdef";
    result += kDigits[c >> 4];
    result += kDigits[c & 15];
  }
  return result;
}

/// SE-1
Status check_folder(const std::string& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0)
    return InvalidArgumentError("the session folder " + path + ": " + std::strerror(errno));
  if (!S_ISDIR(info.st_mode))
    return InvalidArgumentError("the session folder " + path + " is not a directory (a symbolic link is refused)");
  if (info.st_uid != ::getuid()) return InvalidArgumentError("the session folder " + path + " belongs to another user");
  if ((info.st_mode & 077) != 0 && ::chmod(path.c_str(), 0700) != 0)
    return InvalidArgumentError("the session folder " + path + " is open to others: " + std::strerror(errno));
  return {};
}

Status make_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return InvalidArgumentError("cannot make the session folder " + path + ": " + std::strerror(errno) +
                                "; set TROUPE_SESSION_ROOT to a directory that you may write to");
  return check_folder(path);
}

Result<UniqueFd> lock_file(const std::string& path, int operation) {
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd.get() < 0) return make_error<InvalidArgumentError>("cannot write " + path + ": " + std::strerror(errno));
  while (::flock(fd.get(), operation) != 0) {
    if (errno == EINTR) continue;
    return make_error<NotFoundError>(path + " is held by another process");
  }
  return fd;
}

bool is_our_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::getuid();
}

/// Of a folder that was checked: nobody else can put anything there.
std::vector<std::string> sessions_in(const std::string& folder) {
  std::vector<std::string> result;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (is_our_folder(entry.path().string())) result.push_back(entry.path().string());
  std::sort(result.begin(), result.end());
  return result;
}

void remove_all_but_history(const std::string& dir) {
  std::error_code ignored;
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::directory_iterator(dir, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name != "logs" && name != "events" && name != "lock") doomed.push_back(entry.path());
  }
  for (const fs::path& path : doomed) fs::remove_all(path, ignored);
  fs::remove(fs::path(dir) / "lock", ignored);  // last: with it the session counts as unclean
}

/// Called with the root's lock held.
void sweep_locked(const std::string& folder) {
  std::vector<std::string> dead;
  for (const std::string& dir : sessions_in(folder)) {
    if (!fs::exists(dir + "/lock")) {
      dead.push_back(dir);
      continue;
    }
    Result<UniqueFd> lock = lock_file(dir + "/lock", LOCK_EX | LOCK_NB);
    if (!lock.ok()) continue;  // SE-2
    kill_marked(fs::path(dir).filename().string() + "/", std::chrono::seconds(2));
    remove_all_but_history(dir);
    dead.push_back(dir);
  }
  std::error_code ignored;
  for (std::size_t i = 0; i + kSessionsKept < dead.size() + 1; ++i) fs::remove_all(dead[i], ignored);
}

}  // namespace

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string sessions_folder(const std::string& root) {
  std::string base = root;
  for (const char* name : {"TROUPE_SESSION_ROOT", "TMPDIR"}) if (base.empty()) base = setting(name);
  if (base.empty()) base = "/tmp";
  while (base.size() > 1 && base.back() == '/') base.pop_back();
  return base + "/troupe-" + std::to_string(::getuid());
}

Result<Session> create_session(const std::string& root) {
  const std::string folder = sessions_folder(root);
  if (Status status = make_folder(folder); !status.ok()) return status.error_ptr();
  Result<UniqueFd> root_lock = lock_file(folder + "/.lock", LOCK_EX);
  if (!root_lock.ok()) return root_lock.error_ptr();
  sweep_locked(folder);

  Session session;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);  // names sort by time
  std::tm local{};
  ::localtime_r(&now.tv_sec, &local);
  char stamp[32];
  const std::size_t length = std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &local);
  std::snprintf(stamp + length, sizeof(stamp) - length, ".%06ld", now.tv_nsec / 1000);
  session.name = std::string(stamp) + "-" + std::to_string(::getpid()) + "-" + hex_random(2);
  session.dir = folder + "/" + session.name;
  if (session.dir.size() + sizeof("/node00.sock") > 107)
    return make_error<InvalidArgumentError>("the session root is too long for a unix socket: " + folder);
  for (const char* part : {"", "/logs", "/events"})
    if (Status status = make_folder(session.dir + part); !status.ok()) return status.error_ptr();
  Result<UniqueFd> lock = lock_file(session.dir + "/lock", LOCK_SH);
  if (!lock.ok()) return lock.error_ptr();
  session.lock = std::move(*lock);
  return session;
}

Result<UniqueFd> lock_session(const std::string& dir) {
  if (!fs::exists(dir + "/lock")) return make_error<NotFoundError>("the session " + dir + " is over");
  return lock_file(dir + "/lock", LOCK_SH);
}

bool await_release(const std::string& dir, Duration limit) {
  const UniqueFd lock(::open((dir + "/lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!lock) return true;  // cleaned already
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    ::poll(nullptr, 0, kLockLook);  // nothing tells when a lock is given up, and flock itself knows no deadline
  }
  return true;
}

void clean_session(const std::string& dir, UniqueFd mine) {
  mine = UniqueFd();
  const std::string folder = fs::path(dir).parent_path().string();
  if (!check_folder(folder).ok() || !is_our_folder(dir)) return;  // SE-1
  Result<UniqueFd> root_lock = lock_file(folder + "/.lock", LOCK_EX);
  if (!root_lock.ok() || !fs::exists(dir + "/lock")) return;
  Result<UniqueFd> lock = lock_file(dir + "/lock", LOCK_EX | LOCK_NB);
  if (lock.ok()) remove_all_but_history(dir);
}

Status sweep_sessions(const std::string& folder) {
  if (!fs::exists(fs::symlink_status(folder))) return {};
  if (Status status = check_folder(folder); !status.ok()) return status;
  Result<UniqueFd> root_lock = lock_file(folder + "/.lock", LOCK_EX);
  if (!root_lock.ok()) return root_lock.error_ptr();
  sweep_locked(folder);
  return {};
}

Result<std::vector<std::string>> list_sessions(const std::string& folder) {
  if (!fs::exists(fs::symlink_status(folder))) return std::vector<std::string>();
  if (Status status = check_folder(folder); !status.ok()) return status.error_ptr();
  return sessions_in(folder);
}

Status write_whole(const std::string& path, std::string_view text) {
  const std::string draft = path + ".new";
  UniqueFd fd(::open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  const auto failed = [&] { return Error("cannot write " + path + ": " + std::strerror(errno)); };
  if (fd.get() < 0) return failed();
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(fd.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      Status status = failed();
      ::unlink(draft.c_str());  // a full disk stays no fuller than it was
      return status;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::rename(draft.c_str(), path.c_str()) == 0 ? Status() : failed();
}

Status write_info(const std::string& path, const std::vector<std::pair<std::string, std::string>>& lines) {
  std::string text;
  for (const auto& [key, value] : lines) text += key + " " + value + "\n";
  return write_whole(path, text);
}

std::vector<std::pair<std::string, std::string>> read_info(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (const std::size_t space = line.find(' '); space != std::string::npos)
      lines.emplace_back(line.substr(0, space), line.substr(space + 1));
  return lines;
}

std::string info_value(const std::vector<std::pair<std::string, std::string>>& lines, const std::string& key) {
  for (const auto& [k, value] : lines) if (k == key) return value;
  return {};
}

std::string file_tail(const std::string& path, std::size_t count) {
  std::ifstream file(path);
  std::deque<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    lines.push_back(line);
    if (lines.size() > count) lines.pop_front();
  }
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

}  // namespace troupe::node

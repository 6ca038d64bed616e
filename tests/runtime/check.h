// What the runtime's tests share: a program is a list of promises, each a function that is run in the driver of a real
// cluster. A promise that hangs ends the program with its name; one that fails prints the line and its values.
//
//   int main(int argc, char** argv) { return rt::main(argc, argv, {.cpus = 2}, {{"a promise", [] { CHECK_EQ(1, 1);
//   }}}); }
//
// Arguments: names (or parts of them) of the promises to run; none: all. Checks count in the process that makes them.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <troupe/state.h>
#include <troupe/sync.h>
#include <troupe/troupe.h>

namespace rt {

inline std::atomic<int> failures = 0;

template <class T> std::string show(const T& value) {
  std::ostringstream out;
  if constexpr (std::is_enum_v<T>) out << "enum " << static_cast<long long>(value);
  else if constexpr (requires { out << value; }) out << std::boolalpha << value;
  else out << "a value of " << sizeof(T) << " bytes";
  return out.str();
}

inline bool that(bool ok, const std::string& text, const char* file, int line) {
  if (ok) return true;
  ++failures;
  std::fprintf(stderr, "%s:%d: FAILED: %s\n", file, line, text.c_str());
  return false;
}

template <class A, class B> bool equal(const A& a, const B& b, const char* text, const char* file, int line) {
  bool ok = false;
  if constexpr (std::is_integral_v<A> && std::is_integral_v<B> && !std::is_same_v<A, bool> && !std::is_same_v<B, bool>)
    ok = std::cmp_equal(a, b);
  else ok = a == b;
  return that(ok, std::string(text) + ": " + (ok ? "" : show(a) + " is not " + show(b)), file, line);
}

template <class E, class Code> std::optional<E> thrown(Code&& code, const char* text, const char* file, int line) {
  try {
    code();
    that(false, std::string(text) + ": nothing was thrown", file, line);
  } catch (const std::exception& error) {
    if (const E* wanted = dynamic_cast<const E*>(&error)) return *wanted;
    const auto* other = dynamic_cast<const troupe::Error*>(&error);
    that(false,
         std::string(text) + ": another error: " + (other ? troupe::error_name(other->code()) : "an exception") + ": " +
             error.what(),
         file, line);
  }
  return std::nullopt;
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Looks until the condition holds; the limit only ends a broken run.
template <class Pred> bool eventually(Pred&& pred, double seconds = 40) {
  for (double end = now() + seconds; now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    if (pred()) return true;
  return pred();
}

/// Stops a process. kill() may return before its threads have heard of it; back here none of them runs.
inline bool freeze(int pid) {
  const auto is_stopped = [](const std::filesystem::path& thread) {
    std::ifstream file(thread / "stat");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find(") T ") != std::string::npos;
  };
  if (::kill(pid, SIGSTOP) != 0) return false;
  return eventually([&] {
    for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task"))
      if (!is_stopped(thread.path())) return false;
    return true;
  });
}

/// A folder of this program, for files by which processes meet. Its path is known to tasks by their arguments.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "runtime_test.XXXXXX";
    if (!::mkdtemp(name.data())) std::abort();
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline bool exists(const std::string& file) { return ::access(file.c_str(), F_OK) == 0; }
inline void touch(const std::string& file) { std::ofstream out(file, std::ios::app); }
inline void write(const std::string& file, const std::string& text) {
  const std::string part = file + "." + std::to_string(::getpid());
  std::ofstream(part) << text;
  std::filesystem::rename(part, file);
}
inline std::string read(const std::string& file) {
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
/// A counter that outlives processes: the size of a file. bump gives the new count, from 1.
inline int count(const std::string& file) {
  struct stat s {};
  return ::stat(file.c_str(), &s) == 0 ? int(s.st_size) : 0;
}
inline int bump(const std::string& file) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  int now = -1;
  if (::write(fd, "x", 1) == 1) now = int(::lseek(fd, 0, SEEK_CUR));
  ::close(fd);
  return now;
}
[[noreturn]] inline void crash() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}
/// Waits as user code should: until a file is there.
inline void wait_for_file(const std::string& file) {
  while (!exists(file)) troupe::sleep_for(std::chrono::milliseconds(2));
}

struct Promise {
  const char* name;
  std::function<void()> check;
};

/// Ends the program when one promise takes longer than this.
class Watchdog {
 public:
  explicit Watchdog(int seconds) : limit_(seconds), thread_([this] { watch(); }) {}
  ~Watchdog() {
    set(nullptr, true);
    thread_.join();
  }
  void begin(const char* name) { set(name, false); }

 private:
  void set(const char* name, bool done) {
    {
      std::lock_guard lock(mutex_);
      name_ = name;
      done_ = done;
      ++turn_;
    }
    changed_.notify_all();
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      const int turn = turn_;
      if (changed_.wait_for(lock, std::chrono::seconds(limit_), [&] { return turn_ != turn; })) continue;
      if (!name_) continue;
      std::fprintf(stderr, "HANGS: \"%s\" did not end within %d s\n", name_, limit_);
      ::_exit(3);
    }
  }
  const int limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const char* name_ = nullptr;
  bool done_ = false;
  int turn_ = 0;
  std::thread thread_;
};

inline int run_promises(std::span<char* const> arguments, const std::vector<Promise>& promises, int seconds_each) {
  Watchdog dog(seconds_each);
  for (const Promise& promise : promises) {
    bool wanted = arguments.size() < 2;
    for (std::size_t i = 1; i < arguments.size(); ++i)
      wanted = wanted || std::string(promise.name).find(arguments[i]) != std::string::npos;
    if (!wanted) continue;
    std::fprintf(stderr, "[ %s\n", promise.name);
    dog.begin(promise.name);
    const double start = now();
    const int before = failures;
    try {
      promise.check();
    } catch (const std::exception& error) {
      that(false, std::string("an exception left the promise: ") + error.what(), __FILE__, __LINE__);
    }
    std::fprintf(stderr, "%s %s (%.2f s)\n", failures == before ? "  kept ]" : "  BROKEN ]", promise.name,
                 now() - start);
  }
  if (failures) std::fprintf(stderr, "%d checks failed\n", failures.load());
  return failures ? 1 : 0;
}

inline int main(int argc, char** argv, troupe::RunOptions options, const std::vector<Promise>& promises,
                int seconds_each = 60) {
  return troupe::run(argc, argv, std::move(options),
                     [&](std::span<char* const> arguments) { return run_promises(arguments, promises, seconds_each); });
}

}  // namespace rt

#define CHECK(...) rt::that(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
#define CHECK_EQ(a, ...) rt::equal((a), (__VA_ARGS__), #a " == " #__VA_ARGS__, __FILE__, __LINE__)
#define CHECK_THROWS(Error, ...) rt::thrown<Error>([&] { __VA_ARGS__; }, #__VA_ARGS__, __FILE__, __LINE__)

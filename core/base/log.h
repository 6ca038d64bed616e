// Logs of the runtime itself: spdlog and fmt behind a face that includes neither.
//
//   write_log(LogLevel::kWarn, "node {} is {:.1f} ms late", node, late);        // fmt's format strings
//
// Until open_log is called lines go to standard error, from kWarn on. A line that cannot be formatted is logged as its
// format string: logging never throws and never fails a caller.
// Thread rule: any thread. Not in a signal handler, and not between fork and exec.
#pragma once
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace troupe {

enum class LogLevel : int { kDebug = 1, kInfo = 2, kWarn = 3, kError = 4, kOff = 6 };

struct LogOptions {
  std::string file = {};                  ///< empty: standard error
  std::string label = {};                 ///< stands in every line, e.g. "daemon 1"
  LogLevel level = LogLevel::kInfo;       ///< what is written from
  std::size_t file_bytes_max = 64 << 20;  ///< then the file is turned over, once
};

/// (Re)opens this process's log. False when the file cannot be opened: lines then go to standard error.
bool open_log(const LogOptions& options);
void set_log_level(LogLevel level);
/// What the calling thread says below this level is dropped: for head and daemon where they are threads of a user's
/// program.
void set_thread_log_floor(LogLevel floor) noexcept;
bool log_enabled(LogLevel level) noexcept;
void flush_log() noexcept;
/// "debug", "info", "warn", "error", "off"; anything else gives `otherwise`.
LogLevel log_level_of(std::string_view name, LogLevel otherwise);

/// One value in a line. Refers to texts: it lives as long as the call.
struct LogValue {
  enum class Kind { kSigned, kUnsigned, kReal, kText };
  LogValue(std::signed_integral auto v) : kind(Kind::kSigned), whole(v) {}
  LogValue(std::unsigned_integral auto v) : kind(Kind::kUnsigned), positive(v) {}
  LogValue(std::floating_point auto v) : kind(Kind::kReal), real(static_cast<double>(v)) {}
  LogValue(bool v) : LogValue(v ? "true" : "false") {}
  LogValue(std::string_view v) : kind(Kind::kText), text(v) {}
  LogValue(const std::string& v) : LogValue(std::string_view(v)) {}
  LogValue(const char* v) : LogValue(std::string_view(v ? v : "(null)")) {}

  Kind kind;
  union {
    long long whole;
    unsigned long long positive;
    double real;
    std::string_view text;
  };
};

void write_log_line(LogLevel level, std::string_view format, std::initializer_list<LogValue> values) noexcept;

template <class... Values> void write_log(LogLevel level, std::string_view format, const Values&... values) noexcept {
  if (log_enabled(level)) write_log_line(level, format, {LogValue(values)...});
}

}  // namespace troupe

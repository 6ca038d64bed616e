#include "core/base/log.h"

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>

#include <fmt/args.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

namespace troupe {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) { return static_cast<spdlog::level::level_enum>(level); }

std::shared_ptr<spdlog::logger> to_stderr(const LogOptions& options) {
  return std::make_shared<spdlog::logger>(options.label, std::make_shared<spdlog::sinks::stderr_sink_mt>());
}

// What the process logs to. spdlog's own registry is not used: it belongs to the user, who may link spdlog as well.
class Destination {
 public:
  Destination() { use(to_stderr({}), {.level = LogLevel::kWarn}); }

  void use(std::shared_ptr<spdlog::logger> logger, const LogOptions& options) {
    logger->set_pattern(options.label.empty() ? "%Y-%m-%d %H:%M:%S.%e %L %v" : "%Y-%m-%d %H:%M:%S.%e %L [%n %P] %v");
    logger->set_level(to_spdlog(options.level));
    logger->flush_on(to_spdlog(options.level));  // a log is read while its process runs (`troupe logs`)
    const std::lock_guard lock(mutex_);
    logger_ = std::move(logger);
    level_.store(options.level, std::memory_order_relaxed);
  }
  void level(LogLevel level) {
    const std::lock_guard lock(mutex_);
    logger_->set_level(to_spdlog(level));
    level_.store(level, std::memory_order_relaxed);
  }
  LogLevel level() const noexcept { return level_.load(std::memory_order_relaxed); }
  std::shared_ptr<spdlog::logger> logger() {
    const std::lock_guard lock(mutex_);
    return logger_;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<spdlog::logger> logger_;
  std::atomic<LogLevel> level_{LogLevel::kWarn};
};

thread_local LogLevel thread_floor = LogLevel::kDebug;

// One a process, as standard error is; never destroyed, because threads may log while the process ends.
Destination& destination() {
  static Destination& one = *new Destination;
  return one;
}

std::string formatted(std::string_view format, std::initializer_list<LogValue> values) {
  fmt::dynamic_format_arg_store<fmt::format_context> store;
  for (const LogValue& value : values) {
    switch (value.kind) {
      case LogValue::Kind::kSigned: store.push_back(value.whole); break;
      case LogValue::Kind::kUnsigned: store.push_back(value.positive); break;
      case LogValue::Kind::kReal: store.push_back(value.real); break;
      case LogValue::Kind::kText: store.push_back(fmt::string_view(value.text.data(), value.text.size())); break;
    }
  }
  try {
    return fmt::vformat(fmt::string_view(format.data(), format.size()), store);
  } catch (const fmt::format_error&) {
    return std::string(format);
  }
}

}  // namespace

bool open_log(const LogOptions& options) {
  try {
    if (!options.file.empty()) {
      auto sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(options.file, options.file_bytes_max, 1);
      destination().use(std::make_shared<spdlog::logger>(options.label, std::move(sink)), options);
      return true;
    }
  } catch (const std::exception& e) {
    destination().use(to_stderr(options), options);
    write_log(LogLevel::kError, "cannot open the log file: {}", e.what());
    return false;
  }
  destination().use(to_stderr(options), options);
  return true;
}

void set_log_level(LogLevel level) { destination().level(level); }

void set_thread_log_floor(LogLevel floor) noexcept { thread_floor = floor; }

bool log_enabled(LogLevel level) noexcept { return level >= thread_floor && level >= destination().level(); }

void write_log_line(LogLevel level, std::string_view format, std::initializer_list<LogValue> values) noexcept {
  try {
    const std::string line = formatted(format, values);
    destination().logger()->log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {
    // Nobody is left to tell.
  }
}

void flush_log() noexcept {
  try {
    destination().logger()->flush();
  } catch (...) {
  }
}

LogLevel log_level_of(std::string_view name, LogLevel otherwise) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "warn" || name == "warning") return LogLevel::kWarn;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return otherwise;
}

}  // namespace troupe

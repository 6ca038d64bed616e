#include "core/node/logs/log_pump.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace troupe::node {
namespace {
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kReadsPerTurn = 8, kReadsAtEnd = 256;
constexpr Duration kFlushAfter = std::chrono::seconds(1);
constexpr std::size_t kTailLines = 20;
}  // namespace

LogPumps::~LogPumps() {
  for (auto& [id, pump] : pumps_)
    for (Stream& stream : pump.streams) if (stream.pipe) loop_.forget(stream.pipe.get());
}

void LogPumps::start(ProcessId id, UniqueFd out, UniqueFd err) {
  Pump& pump = pumps_[id];
  const std::string name = folder_ + "/worker-" + std::to_string(id.node) + "-" + std::to_string(id.serial);
  pump.streams[0].pipe = std::move(out);
  pump.streams[0].path = name + ".out";
  pump.streams[1].pipe = std::move(err);
  pump.streams[1].path = name + ".err";
  for (int which = 0; which < 2; ++which) {
    const int fd = pump.streams[which].pipe.get();
    ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
    loop_.watch(fd, EPOLLIN, [this, id, which](std::uint32_t) {
      auto it = pumps_.find(id);
      if (it == pumps_.end()) return;
      for (int i = 0; i < kReadsPerTurn && read_some(id, it->second, which); ++i) {}
    });
  }
}

void LogPumps::set_prefix(ProcessId id, std::string prefix) {
  if (auto it = pumps_.find(id); it != pumps_.end()) it->second.prefix = std::move(prefix);
}

bool LogPumps::read_some(ProcessId id, Pump& pump, int which) {
  Stream& stream = pump.streams[which];
  if (!stream.pipe) return false;
  char block[kReadBytes];
  const ssize_t n = ::read(stream.pipe.get(), block, sizeof(block));
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return errno == EINTR;
  if (n <= 0) {
    loop_.forget(stream.pipe.get());
    stream.pipe.reset();
    return false;
  }
  const std::string_view bytes(block, static_cast<std::size_t>(n));
  if (!stream.file)
    stream.file.reset(::open(stream.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  const ssize_t written = stream.file ? ::write(stream.file.get(), bytes.data(), bytes.size()) : 0;
  bytes_lost_ += bytes.size() - static_cast<std::size_t>(std::max<ssize_t>(0, written));
  show(id, pump, which, stream.filter.push(bytes, loop_.now()));
  if (stream.filter.wants_flush()) plan_flush(id, pump);
  return true;
}

void LogPumps::plan_flush(ProcessId id, Pump& pump) {
  if (std::exchange(pump.flush_planned, true)) return;
  loop_.after(kFlushAfter, [this, id] {
    auto it = pumps_.find(id);
    if (it == pumps_.end()) return;
    it->second.flush_planned = false;
    for (int which = 0; which < 2; ++which)
      show(id, it->second, which, it->second.streams[which].filter.flush(loop_.now(), false));
  });
}

void LogPumps::show(ProcessId id, const Pump& pump, int which, std::vector<std::string> lines) {
  if (!lines.empty()) sink_(id, wire::LogLines{pump.prefix, std::move(lines), which == 1});
}

void LogPumps::read_all(ProcessId id, Pump& pump, int which) {
  for (int i = 0; i < kReadsAtEnd && read_some(id, pump, which); ++i) {}
  show(id, pump, which, pump.streams[which].filter.flush(loop_.now(), true));
}

void LogPumps::drain(ProcessId id) {
  auto it = pumps_.find(id);
  for (int which = 0; it != pumps_.end() && which < 2; ++which) read_all(id, it->second, which);
}

std::vector<std::string> LogPumps::finish(ProcessId id) {
  auto it = pumps_.find(id);
  if (it == pumps_.end()) return {};
  Pump& pump = it->second;
  std::vector<std::string> tail;
  for (int which = 0; which < 2; ++which) {
    // The writers are dead; a stray that still holds the pipe cannot keep us here.
    read_all(id, pump, which);
    if (pump.streams[which].pipe) loop_.forget(pump.streams[which].pipe.get());
    const auto& lines = pump.streams[which].filter.tail();
    tail.insert(tail.end(), lines.begin(), lines.end());
  }
  if (tail.size() > kTailLines) tail.erase(tail.begin(), tail.end() - static_cast<std::ptrdiff_t>(kTailLines));
  pumps_.erase(it);
  return tail;
}

}  // namespace troupe::node

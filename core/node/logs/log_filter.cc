#include "core/node/logs/log_filter.h"

#include <algorithm>
#include <utility>

namespace troupe::node {

std::string escape_line(std::string_view line) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(line.size());
  for (const char c : line) {
    const auto u = static_cast<unsigned char>(c);
    if ((u < 0x20 && c != '\t') || u == 0x7f) {
      text += "\\x";
      text += kDigits[u >> 4];
      text += kDigits[u & 15];
    } else {
      text += c;
    }
  }
  return text;
}

std::vector<std::string> LogFilter::push(std::string_view bytes, TimePoint now) {
  std::vector<std::string> out;
  while (!bytes.empty()) {
    const std::size_t room = kLineMax - partial_.size();
    const std::size_t newline = bytes.substr(0, room).find('\n');
    if (newline == std::string_view::npos) {
      const std::size_t taken = std::min(room, bytes.size());
      partial_.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      if (partial_.size() < kLineMax) continue;
    } else {
      partial_.append(bytes.substr(0, newline));
      bytes.remove_prefix(newline + 1);
      if (!partial_.empty() && partial_.back() == '\r') partial_.pop_back();
    }
    line(escape_line(std::exchange(partial_, {})), now, out);
  }
  return out;
}

void LogFilter::line(std::string text, TimePoint now, std::vector<std::string>& out) {
  tail_.push_back(text);
  if (tail_.size() > options_.tail_lines) tail_.pop_front();
  if (has_last_ && text == last_) {
    ++repeated_;
    return;
  }
  if (refilled_ != TimePoint{}) {
    const double seconds = std::chrono::duration<double>(now - refilled_).count();
    tokens_ = std::min(options_.burst, tokens_ + seconds * options_.lines_per_second);
  }
  refilled_ = now;
  if (tokens_ < 1) {
    ++dropped_;
    has_last_ = false;
    return;
  }
  say_counts(out);
  tokens_ -= 1;
  out.push_back(text);
  last_ = std::move(text);
  has_last_ = true;
}

void LogFilter::say_counts(std::vector<std::string>& out) {
  if (repeated_ > 0) out.push_back("... repeated " + std::to_string(repeated_) + " times");
  if (dropped_ > 0)
    out.push_back("... " + std::to_string(dropped_) + " lines not shown (too many at once; they are in the log file)");
  repeated_ = dropped_ = 0;
}

std::vector<std::string> LogFilter::flush(TimePoint now, bool end) {
  std::vector<std::string> out;
  if (end && !partial_.empty()) line(escape_line(std::exchange(partial_, {})), now, out);
  say_counts(out);
  return out;
}

}  // namespace troupe::node

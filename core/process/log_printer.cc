#include "core/process/log_printer.h"

#include <unistd.h>

namespace troupe::worker {

namespace {
/// One write a message, so that lines of several processes do not mix.
void write_all(const std::string& text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + at, text.size() - at);
    if (n <= 0) return;
    at += std::size_t(n);
  }
}
}  // namespace

void print_log_lines(const wire::LogLines& message) {
  std::string text;
  for (const std::string& line : message.lines) text += message.prefix + " " + line + "\n";
  write_all(text);
}

void print_warning(const std::string& text) { write_all("troupe: " + text + "\n"); }

}  // namespace troupe::worker

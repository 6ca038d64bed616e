// Log lines of this process; those of workers reach the driver, prefixed. Any thread.
#pragma once
#include <string_view>

namespace troupe::log {

void debug(std::string_view text);
void info(std::string_view text);
void warn(std::string_view text);
void error(std::string_view text);

}  // namespace troupe::log

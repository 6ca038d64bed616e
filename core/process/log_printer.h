// Lines of workers on the driver's standard error. Thread rule: any.
#pragma once
#include <string>

#include "core/wire/messages.h"

namespace troupe::worker {

void print_log_lines(const wire::LogLines& message);
void print_warning(const std::string& text);

}  // namespace troupe::worker

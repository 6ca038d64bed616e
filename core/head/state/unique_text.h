// Sixteen random hexadecimal digits: node ids, anonymous namespaces, cluster ids.
#pragma once
#include <cstdio>
#include <string>

#include "core/base/random.h"

namespace troupe::head {

inline std::string unique_text(Random& random) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(random.next64()));
  return text;
}

}  // namespace troupe::head

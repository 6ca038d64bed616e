// Versions of libraries whose results a generator's samples depend on (GEN-3).
#pragma once

#include <boost/json.hpp>
#include <gnu/libc-version.h>

namespace datagen {

/// log, exp, sin, ...: other versions of the C library may round them otherwise.
[[nodiscard]] inline boost::json::object math_library() {
  boost::json::object out;
  out["libc"] = gnu_get_libc_version();
  return out;
}

}  // namespace datagen

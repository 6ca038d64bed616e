// The one reader of the environment in the libraries: names are asked for where options are parsed, nowhere else.
//
// Thread rule: any thread, as long as nobody changes the environment meanwhile.
#pragma once
#include <cstdlib>
#include <string>

namespace troupe {

/// The variable's value; empty when it is not set.
inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

}  // namespace troupe

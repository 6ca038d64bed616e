// What the C library's mathematical functions give in this process. glibc has several of each and chooses by the
// processor (with FMA or without), which its version does not say.
#pragma once

#include <string>

namespace datagen {

/// A word that is the same where a few thousand of their results are, to the last bit. Any thread.
[[nodiscard]] const std::string& libm_numbers();

}  // namespace datagen

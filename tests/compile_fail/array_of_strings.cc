// Elements of an array lie in shared memory as they are.
#include <troupe/troupe.h>

namespace array_of_strings {
inline void use() {
#ifdef RIGHT
  troupe::ArrayBuilder<std::array<char, 16>> builder(3);
#else
  troupe::ArrayBuilder<std::string> builder(3);
#endif
}
}  // namespace array_of_strings

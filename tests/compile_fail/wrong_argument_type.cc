// A text for a number.
#include <troupe/troupe.h>

namespace wrong_argument_type {
inline int twice(int x) { return 2 * x; }
inline void use() {
#ifdef RIGHT
  troupe::task<&twice>.remote(3);
#else
  troupe::task<&twice>.remote(std::string("three"));
#endif
}
}  // namespace wrong_argument_type

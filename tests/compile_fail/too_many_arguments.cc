// A task is called with one argument more than its function has.
#include <troupe/troupe.h>

namespace too_many_arguments {
inline int twice(int x) { return 2 * x; }
inline void use() {
#ifdef RIGHT
  troupe::task<&twice>.remote(1);
#else
  troupe::task<&twice>.remote(1, 2);
#endif
}
}  // namespace too_many_arguments

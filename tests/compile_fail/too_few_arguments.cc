// A task is called with one argument less than its function has.
#include <troupe/troupe.h>

namespace too_few_arguments {
inline int add(int a, int b) { return a + b; }
inline void use() {
#ifdef RIGHT
  troupe::task<&add>.remote(1, 2);
#else
  troupe::task<&add>.remote(1);
#endif
}
}  // namespace too_few_arguments

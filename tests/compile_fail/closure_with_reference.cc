// A closure that captures by reference: the object is in another process.
#include <troupe/troupe.h>

namespace closure_with_reference {
inline void use() {
  int factor = 3;
#ifdef RIGHT
  troupe::submit([factor](int x) { return x * factor; }, 1);
#else
  troupe::submit([&factor](int x) { return x * factor; }, 1);
#endif
}
}  // namespace closure_with_reference

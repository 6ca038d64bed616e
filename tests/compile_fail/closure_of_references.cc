// A closure that captures another one that captures by reference.
#include <troupe/troupe.h>

namespace closure_of_references {
inline void use() {
  int factor = 3;
  const auto times = [&factor](int x) { return x * factor; };
  const auto all = [times](int x) { return times(x); };
#ifdef RIGHT
  troupe::submit(troupe::shippable(all), 1);
#else
  troupe::submit(all, 1);
#endif
}
}  // namespace closure_of_references

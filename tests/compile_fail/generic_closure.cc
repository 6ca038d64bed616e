// A closure with a template for an operator(): which one is it?
#include <troupe/troupe.h>

namespace generic_closure {
inline void use() {
#ifdef RIGHT
  troupe::submit([](int x) { return x; }, 1);
#else
  troupe::submit([](auto x) { return x; }, 1);
#endif
}
}  // namespace generic_closure

// A Result holds a value or an error: there is no empty one.
#include <troupe/troupe.h>

namespace result_without_a_value {
inline troupe::Result<int> make() {
#ifdef RIGHT
  return 1;
#else
  return {};
#endif
}
}  // namespace result_without_a_value

// What was sealed is not written any more.
#include <troupe/troupe.h>

namespace array_is_read_only {
inline void use(const troupe::ObjectRef<troupe::Array<float>>& ref) {
  troupe::Array<float> view = troupe::get(ref);
#ifdef RIGHT
  float x = view[0];
  (void)x;
#else
  view[0] = 1;
#endif
}
}  // namespace array_is_read_only

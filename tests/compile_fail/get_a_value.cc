// get of something that is no ref.
#include <troupe/troupe.h>

namespace get_a_value {
inline void use() {
#ifdef RIGHT
  troupe::get(troupe::put(1));
#else
  troupe::get(1);
#endif
}
}  // namespace get_a_value

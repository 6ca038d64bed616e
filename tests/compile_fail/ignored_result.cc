// An error that nobody looks at. (-Werror=unused-result, which is on for both forms.)
#include <troupe/troupe.h>

namespace ignored_result {
inline void use(const troupe::ObjectRef<int>& ref) {
#ifdef RIGHT
  if (!troupe::try_get(ref).ok()) return;
#else
  troupe::try_get(ref);
#endif
}
}  // namespace ignored_result

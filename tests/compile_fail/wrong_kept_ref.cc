// A parameter that is a ref takes a ref to exactly that type.
#include <troupe/troupe.h>

namespace wrong_kept_ref {
inline int look(troupe::ObjectRef<int> ref) { return troupe::get(ref); }
inline void use(const troupe::ObjectRef<int>& same, const troupe::ObjectRef<std::string>& other) {
#ifdef RIGHT
  troupe::task<&look>.remote(same);
#else
  troupe::task<&look>.remote(other);
#endif
  (void)same;
  (void)other;
}
}  // namespace wrong_kept_ref

// A ref to a text where a ref to a number, or a number, is wanted.
#include <troupe/troupe.h>

namespace wrong_ref_type {
inline int twice(int x) { return 2 * x; }
inline void use(const troupe::ObjectRef<std::string>& text, const troupe::ObjectRef<short>& number) {
#ifdef RIGHT
  troupe::task<&twice>.remote(number);
#else
  troupe::task<&twice>.remote(text);
#endif
  (void)text;
  (void)number;
}
}  // namespace wrong_ref_type

// A pointer means nothing in another process.
#include <troupe/troupe.h>

namespace pointer_argument {
inline int first(std::vector<int> v) { return v[0]; }
inline int first_of(int* v) { return v[0]; }
inline void use() {
#ifdef RIGHT
  troupe::task<&first>.remote(std::vector<int>{1});
#else
  int x = 1;
  troupe::task<&first_of>.remote(&x);
#endif
}
}  // namespace pointer_argument

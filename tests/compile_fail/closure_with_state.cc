// A closure whose state is not bytes.
#include <troupe/troupe.h>

namespace closure_with_state {
inline void use() {
#ifdef RIGHT
  const int factor = 3;
#else
  const std::string factor = "3";
#endif
  troupe::submit([factor](int x) { return x + int(sizeof(factor)); }, 1);
}
}  // namespace closure_with_state

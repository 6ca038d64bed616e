// An actor whose class has no such constructor.
#include <troupe/troupe.h>

namespace wrong_constructor {
class Counter {
 public:
  explicit Counter(int start) : value_(start) {}
  int value() const { return value_; }

 private:
  int value_;
};
inline void use() {
#ifdef RIGHT
  troupe::actor<Counter>.remote(1);
#else
  troupe::actor<Counter>.remote(std::string("one"));
#endif
}
}  // namespace wrong_constructor

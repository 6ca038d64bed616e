// The method of another class.
#include <troupe/troupe.h>

namespace wrong_method {
class Counter {
 public:
  int add(int x) { return value_ += x; }

 private:
  int value_ = 0;
};
class Other {
 public:
  int add(int x) { return x; }
};
inline void use(const troupe::ActorHandle<Counter>& counter) {
#ifdef RIGHT
  counter.call<&Counter::add>(1);
#else
  counter.call<&Other::add>(1);
#endif
}
}  // namespace wrong_method

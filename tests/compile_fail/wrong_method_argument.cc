// A method is called with what it does not take; a cast is checked as a call is.
#include <troupe/troupe.h>

namespace wrong_method_argument {
class Counter {
 public:
  int add(int x) { return value_ += x; }

 private:
  int value_ = 0;
};
inline void use(const troupe::ActorHandle<Counter>& counter) {
#ifdef RIGHT
  counter.cast<&Counter::add>(1);
#else
  counter.cast<&Counter::add>(std::string("one"));
#endif
}
}  // namespace wrong_method_argument

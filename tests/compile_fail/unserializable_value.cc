// A class with private members that says nothing of how it is written.
#include <troupe/troupe.h>

namespace unserializable_value {
class Silent {
 public:
  Silent() = default;
  explicit Silent(int x) : x_(x) {}
#ifdef RIGHT
  template <class Archive> void serialize(Archive& ar) { ar(x_); }
#endif
  int x() const { return x_; }

 private:
  int x_ = 0;
};
inline void use() { troupe::put(Silent(1)); }
}  // namespace unserializable_value

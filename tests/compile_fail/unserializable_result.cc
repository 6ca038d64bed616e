// A result that cannot travel.
#include <mutex>
#include <thread>

#include <troupe/troupe.h>

namespace unserializable_result {
#ifdef RIGHT
inline std::vector<int> make() { return {1}; }
#else
inline std::thread make() { return {}; }
#endif
inline void use() { troupe::task<&make>.remote(); }
}  // namespace unserializable_result

#include "core/net/data/checksum.h"

#include <xxhash.h>

namespace troupe::net {

std::uint64_t checksum_versions::portable(const void* bytes, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}

std::uint64_t checksum(const void* bytes, std::size_t size, std::uint64_t seed) {
#if defined(__x86_64__)
  using Function = std::uint64_t (*)(const void*, std::size_t, std::uint64_t);
  static const Function best = __builtin_cpu_supports("avx512f") ? checksum_versions::avx512
                               : __builtin_cpu_supports("avx2")  ? checksum_versions::avx2
                                                                 : checksum_versions::portable;
  return best(bytes, size, seed);
#else
  return checksum_versions::portable(bytes, size, seed);
#endif
}

}  // namespace troupe::net

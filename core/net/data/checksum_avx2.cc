// Compiled with -mavx2. Includes nothing of the standard library's templates: an inline function compiled here must not
// become the one that other files use on a lesser processor.
#include "core/net/data/checksum.h"

#if defined(__x86_64__)
#include <xxhash.h>

std::uint64_t troupe::net::checksum_versions::avx2(const void* bytes, std::size_t size, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes, size, seed);
}
#endif

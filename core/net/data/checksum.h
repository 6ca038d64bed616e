// XXH3 over a chunk, by the widest vectors of this processor. The value is the same whichever version computes it.
//
// The portable version runs at about 12 GB/s on bytes in the cache; a 256 MiB transfer computes it twice, so it is a
// fifth of the transfer's processor time. AVX2 and AVX-512 halve that.
//
// Thread rule: pure.
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::net {

std::uint64_t checksum(const void* bytes, std::size_t size, std::uint64_t seed);

namespace checksum_versions {  // one file each, compiled for its processor; chosen by checksum()
std::uint64_t portable(const void* bytes, std::size_t size, std::uint64_t seed);
std::uint64_t avx2(const void* bytes, std::size_t size, std::uint64_t seed);
std::uint64_t avx512(const void* bytes, std::size_t size, std::uint64_t seed);
}  // namespace checksum_versions

}  // namespace troupe::net

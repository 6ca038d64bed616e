// Copies of bytes and conversions between element types. Pure functions, any thread; nothing is allocated.
//
// CP-1  A cast from a floating type to a narrower one rounds once, to nearest even; to an integer it truncates toward
//       zero, takes the nearest end for what does not fit, and 0 for NaN. Between integers it wraps. Integers beyond
//       2^53 go to 16-bit floats through double.
// CP-2  Every version gives the same bits (the payload of a NaN is open).
// CP-3  Input and output may not overlap, except that a cast to a type of the same size may be exactly in place.
// CP-4  The second of copy_both may write over what the first reads, from the same address on or from a lower one:
//       every byte is read before it is overwritten.
#pragma once

#include <cstddef>

#include "kernels/cpu/isa/dtype.h"
#include "kernels/cpu/isa/isa.h"

namespace troupe::kernels {

struct CopyOptions {
  bool stream = false;  ///< write around the cache; for outputs of about half the last-level cache and more
};

void copy(void* out, const void* in, std::size_t bytes, const CopyOptions& options = {});
void copy(Isa isa, void* out, const void* in, std::size_t bytes, const CopyOptions& options = {});

struct CopyJob {
  void* out = nullptr;
  const void* in = nullptr;
  std::size_t bytes = 0;
};
/// Two copies side by side, a few lines of each in turn, so that the waits of one (for memory, say) pass while the
/// other (from another core's cache, say) goes on. `options` is about the first; the second is written into the cache.
void copy_both(const CopyJob& first, const CopyJob& second, const CopyOptions& options = {});
void copy_both(Isa isa, const CopyJob& first, const CopyJob& second, const CopyOptions& options = {});

/// Converts count elements (CP-1).
void cast(void* out, DType to, const void* in, DType from, std::size_t count);
void cast(Isa isa, void* out, DType to, const void* in, DType from, std::size_t count);

namespace detail {

using CastFunction = void (*)(std::byte* out, const std::byte* in, std::size_t begin, std::size_t end);
struct CopyVersion {
  void (*stream)(std::byte* out, const std::byte* in, std::size_t bytes);  // out aligned to 64, bytes a multiple of 256
  // As many bytes of each, a multiple of 256; the first is streamed where `streamed` (then aligned to 64).
  void (*both)(std::byte* out, const std::byte* in, std::byte* other_out, const std::byte* other_in, std::size_t bytes,
               bool streamed);
  // Elements [0, the returned count); the reference does the rest.
  std::size_t (*half_to_float)(float* out, const std::byte* in, std::size_t count);
  std::size_t (*bfloat_to_float)(float* out, const std::byte* in, std::size_t count);
  std::size_t (*float_to_half)(std::byte* out, const float* in, std::size_t count);
  std::size_t (*float_to_bfloat)(std::byte* out, const float* in, std::size_t count);
};
CastFunction cast_reference(DType to, DType from);  // null for numbers that are no types
const CopyVersion* copy_avx2();                     // null where it was not built
const CopyVersion* copy_avx512();

}  // namespace detail
}  // namespace troupe::kernels

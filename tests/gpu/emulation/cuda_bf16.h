// __nv_bfloat16 of the emulation (cuda_runtime.h): storage, and the two conversions, rounding to nearest even.
#pragma once

#include <troupe/half.h>

struct __nv_bfloat16 {
  std::uint16_t bits;
};
inline __nv_bfloat16 __float2bfloat16(float value) { return {troupe::bfloat16(value).bits()}; }
inline float __bfloat162float(__nv_bfloat16 value) { return troupe::bfloat16::from_bits(value.bits); }

// Which instruction set a kernel runs on.
//
// Every kernel has a plain C++ reference; faster versions exist for the sets below and are chosen at run time by
// cpuid, so one binary runs everywhere. Pure functions, callable from any thread.
//
// KI-1  A set is "supported" only when the processor has all of its parts and the system saves its registers.
// KI-2  kReference is always supported.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace troupe::kernels {

enum class Isa : std::uint8_t {
  kReference,  ///< plain C++, any processor
  kAvx2,       ///< AVX2, FMA and F16C
  kAvx512,     ///< AVX-512 F, BW, DQ, VL
};

inline constexpr std::array<Isa, 3> kAllIsas{Isa::kReference, Isa::kAvx2, Isa::kAvx512};

/// True when this machine can run code of that set.
[[nodiscard]] bool isa_supported(Isa isa) noexcept;

/// The fastest supported set.
[[nodiscard]] Isa best_isa() noexcept;

/// True when kAvx512 is supported and the processor also rounds floats to bfloat16 (AVX-512 BF16).
[[nodiscard]] bool has_avx512_bf16() noexcept;

/// "reference", "avx2" or "avx512".
[[nodiscard]] std::string_view isa_name(Isa isa) noexcept;

}  // namespace troupe::kernels

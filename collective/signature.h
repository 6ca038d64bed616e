// Signature: what an operation is, in three words, so that ranks can compare what they do before data moves.
//
//   what    | kind 8 | type 8 | op 8 | root 16 | device 1 | nothing 23 |     device: where that makes a difference to the group
//   count   elements; of the v-variants a hash of the counts; nothing for all_to_all_v, whose counts differ by right
//   scale   the bits of pre_mul_sum's factor; 0 for the other operations
//
// Invariants
//   SI-1  Ranks that reduce alike have equal signatures, others different ones: every bit of the factor counts.
//   SI-2  One signature for all backends, so that one mismatch reads the same wherever it is found.
//
// Pure; any thread.
#pragma once
#include <cstdint>
#include <string>

#include <troupe/collective_types.h>

namespace troupe::collective {

struct Signature {
  std::uint64_t what = 0, count = 0, scale = 0;
  bool operator==(const Signature&) const = default;
  /// Does the scale say anything?
  bool scaled() const { return (what >> 16 & 0xff) == Op::kPreMulSum; }
  /// The same in device memory: where that goes by other means than memory of the host, ranks must not mix them.
  static constexpr std::uint64_t kInDeviceMemory = std::uint64_t(1) << 40;
  Signature in_device_memory() const { return {what | kInDeviceMemory, count, scale}; }
};

Signature signature_of(const detail::Operation& operation);
/// In words, for an error: "all_reduce of 1000 float32 (sum)", "reduce of 8 float64 (pre_mul_sum by 0.5), root 1",
/// "all_reduce of 1000 float32 (sum) in device memory".
std::string describe(const Signature& signature);

}  // namespace troupe::collective

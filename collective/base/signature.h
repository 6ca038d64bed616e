// Signature: what an operation is, in three words, so that ranks can compare what they do before data moves.
//
//   what    | kind 8 | type 8 | op 8 | root 16 | device 1 | nothing 23 | device: where that makes a difference to the
//           group
//   count   elements; of the v-variants a weighted sum of the counts; nothing for all_to_all_v, whose counts differ by
//           right
//   scale   the bits of pre_mul_sum's factor; of the v-variants a second sum of the counts; 0 for the other operations
//
// The two sums: with c the counts, w fixed weights without a pattern, all modulo the prime p = 2^61 - 1,
//
//   count = sum of w[i] c[i]      scale = sum of (i + 1) w[i] c[i]
//
// so where two ranks differ in one count, the differences of their sums are w[i] d and (i + 1) w[i] d: these tell i and
// d.
//
// Invariants
//   SIG-1  Ranks that reduce alike have equal signatures, others different ones: every bit of the factor counts.
//   SIG-2  One signature for all backends, so that one mismatch reads the same wherever it is found.
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
  /// Is the scale a factor?
  bool scaled() const { return (what >> 16 & 0xff) == Op::kPreMulSum; }
  /// Is it a sum of counts?
  bool counted() const;
  /// Does it say anything?
  bool has_scale() const { return scaled() || counted(); }
  /// The same in device memory: where that goes by other means than memory of the host, ranks must not mix them.
  static constexpr std::uint64_t kInDeviceMemory = std::uint64_t(1) << 40;
  Signature in_device_memory() const { return {what | kInDeviceMemory, count, scale}; }
};

Signature signature_of(const detail::Operation& operation);
/// In words, for an error: "all_reduce of 1000 float32 (sum)", "reduce of 8 float64 (pre_mul_sum by 0.5), root 1",
/// "all_reduce of 1000 float32 (sum) in device memory".
std::string describe(const Signature& signature);
/// The text of a mismatch, the lower rank first: what each called and, where one count differs, which.
std::string describe_mismatch(int rank, const Signature& own, int other, const Signature& theirs);

}  // namespace troupe::collective

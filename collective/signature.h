// Signature: what an operation is, in two words, so that ranks can compare what they do before data moves.
//
//   what    | kind 8 | type 8 | op 8 | root 16 | hash of pre_mul_sum's factor |
//   count   elements; of the v-variants a hash of the counts; nothing for all_to_all_v, whose counts differ by right
//
// Pure; any thread.
#pragma once
#include <cstdint>
#include <string>

#include <troupe/collective_types.h>

namespace troupe::collective {

struct Signature {
  std::uint64_t what = 0, count = 0;
  bool operator==(const Signature&) const = default;
};

Signature signature_of(const detail::Operation& operation);
/// In words, for an error: "all_reduce of 1000 float32 (sum)".
std::string describe(const Signature& signature);

}  // namespace troupe::collective

// Plan: which samples make which shard: contiguous ranges of the same size, the last one smaller when it has to be.
//
// Plain value; any thread.
//
// PLN-1  The shards are all samples, each once; none is empty. check() says what is out of bounds.
#pragma once

#include <cstdint>
#include <optional>

#include <troupe/result.h>

#include "apps/datagen/generators/generator.h"

namespace datagen {

struct Plan {
  std::uint64_t samples = 0, samples_per_shard = 0;
  friend bool operator==(const Plan&, const Plan&) = default;

  /// InvalidArgumentError (PLN-1): no samples, shards of size zero, more than 2^32 shards.
  [[nodiscard]] troupe::Status check() const;
  [[nodiscard]] std::uint64_t shards() const;
  /// shard < shards().
  [[nodiscard]] SampleRange range(std::uint64_t shard) const;
  /// The shard that is just this range; none: there is no such one.
  [[nodiscard]] std::optional<std::uint64_t> shard_of(SampleRange range) const;
};

}  // namespace datagen

#include "apps/datagen/config/plan.h"

#include <algorithm>

#include <fmt/format.h>

namespace datagen {
namespace {

constexpr std::uint64_t kShardsMax = std::uint64_t{1} << 32;

}  // namespace

troupe::Status Plan::check() const {
  if (samples == 0) return troupe::InvalidArgumentError("a data set of no samples: give --samples a number above 0");
  if (samples_per_shard == 0)
    return troupe::InvalidArgumentError("shards of no samples: give --samples-per-shard a number above 0");
  if (shards() > kShardsMax)
    return troupe::InvalidArgumentError(
        fmt::format("{} samples in shards of {} are {} shards; there may be {}: give --samples-per-shard {} or more",
                    samples, samples_per_shard, shards(), kShardsMax, (samples - 1) / kShardsMax + 1));
  return {};
}

std::uint64_t Plan::shards() const { return samples == 0 ? 0 : (samples - 1) / samples_per_shard + 1; }

SampleRange Plan::range(std::uint64_t shard) const {
  const std::uint64_t begin = shard * samples_per_shard;
  return {begin, begin + std::min(samples_per_shard, samples - begin)};
}

std::optional<std::uint64_t> Plan::shard_of(SampleRange of) const {
  const std::uint64_t shard = of.begin / samples_per_shard;
  if (of.begin >= samples || range(shard) != of) return std::nullopt;
  return shard;
}

}  // namespace datagen

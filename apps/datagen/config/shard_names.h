// ShardNames: what the shards of a configuration are called, and whether what a manifest says of one can be.
//
// A manifest is a file that somebody else may have made: its names are opened, replaced and removed.
//
// One thread at a time.
//
// SHN-1  check() lets nothing pass but a shard of the plan under the very name that the format gives it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <troupe/result.h>

#include "apps/datagen/config/job_config.h"
#include "apps/datagen/formats/format.h"

namespace datagen {

class ShardNames {
 public:
  /// NotFoundError, InvalidArgumentError: the format is not known here, or does not know its settings. Its libraries
  /// are not asked for.
  [[nodiscard]] static troupe::Result<ShardNames> make(const JobConfig& config);
  /// For a program that has no registry: `kind` is of the configuration's format.
  [[nodiscard]] static troupe::Result<ShardNames> make(const JobConfig& config, const FormatKind& kind);

  /// shard < the plan's shards().
  [[nodiscard]] std::string of(std::uint64_t shard) const;
  /// SHN-1: SerializationError, with the name.
  [[nodiscard]] troupe::Status check(const std::string& name, SampleRange range) const;

 private:
  ShardNames(const Plan& plan, std::unique_ptr<FormatOptions> format) : plan_(plan), format_(std::move(format)) {}

  Plan plan_;
  std::unique_ptr<FormatOptions> format_;
};

}  // namespace datagen

#include "apps/datagen/config/shard_names.h"

#include <optional>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/common/settings/setting.h"
#include "apps/datagen/formats/format_registry.h"

namespace datagen {

troupe::Result<ShardNames> ShardNames::make(const JobConfig& config) {
  const auto kind = find_format(config.format.name);
  if (!kind.ok()) return kind.error_ptr();
  return make(config, *kind);
}

troupe::Result<ShardNames> ShardNames::make(const JobConfig& config, const FormatKind& kind) {
  auto options = kind.options();
  if (troupe::Status status = apps::assign_all(options->settings(), config.format.settings); !status.ok())
    return troupe::InvalidArgumentError(fmt::format("{}: {}", config.format.name, status.error().message()));
  if (troupe::Status plan = config.plan.check(); !plan.ok()) return plan.error_ptr();
  return ShardNames(config.plan, std::move(options));
}

std::string ShardNames::of(std::uint64_t shard) const {
  return format_->shard_name({.index = shard, .count = plan_.shards(), .range = plan_.range(shard)});
}

troupe::Status ShardNames::check(const std::string& name, SampleRange range) const {
  const std::optional<std::uint64_t> shard = plan_.shard_of(range);
  if (shard && of(*shard) == name) return {};
  // Quoted as JSON has it: a stranger's name may have anything in it.
  return troupe::SerializationError(
      fmt::format("the manifest has a shard {} of samples {} to {}, which the plan has not: it is damaged, or not of "
                  "this program; nothing was touched",
                  boost::json::serialize(boost::json::value(name)), range.begin, range.end));
}

}  // namespace datagen

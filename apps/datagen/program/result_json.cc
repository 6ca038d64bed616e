#include "apps/datagen/program/result_json.h"

#include <algorithm>
#include <vector>

#include <boost/json.hpp>

#include "apps/common/precise_json.h"

namespace datagen {
namespace {

namespace json = boost::json;

/// The value below which that share of the shards lies.
double quantile(std::vector<float> seconds, double share) {
  if (seconds.empty()) return 0;
  const auto at = static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1));
  std::ranges::nth_element(seconds, seconds.begin() + static_cast<std::ptrdiff_t>(at));
  return seconds[at];
}

double per_second(std::uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

std::string run_json(const DatasetFolder& dataset, const RunReport& report, std::string_view status,
                     std::string_view error) {
  json::object nodes;
  for (const auto& [node, shards] : report.shards_of_node) nodes[node] = shards;
  const json::object out{
      {"status", status},
      {"error", error},
      {"name", dataset.name},
      {"digest", report.digest},
      {"shards", report.shards},
      {"shards_before", report.shards_before},
      {"shards_made", report.shards_made},
      {"rows", report.rows},
      {"bytes", report.bytes},
      {"samples_made", report.samples_made},
      {"rows_made", report.rows_made},
      {"bytes_made", report.bytes_made},
      {"retries", report.retries},
      {"wasted_shards", report.wasted_shards},
      {"wasted_rows", report.wasted_rows},
      {"commits", report.commits},
      {"epoch", report.first_epoch},
      {"travelled_shards", report.travelled},
      {"start_seconds", report.start_seconds},
      {"seconds", report.seconds},
      {"finish_seconds", report.finish_seconds},
      {"rows_per_second", per_second(report.rows_made, report.seconds)},
      {"bytes_per_second", per_second(report.bytes_made, report.seconds)},
      {"shard_seconds_p50", quantile(report.shard_seconds, 0.5)},
      {"shard_seconds_p99", quantile(report.shard_seconds, 0.99)},
      {"shards_of_node", nodes},
      {"files", json::value_from(report.files)},
      {"check", report.check_line},
      {"config", apps::parse_json(dataset.config.canonical())}};
  return json::serialize(out) + "\n";
}

}  // namespace datagen

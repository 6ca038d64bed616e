#include "apps/datagen/run/verify.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/datagen/run/shard_task.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBytesATask = 64 << 20;
constexpr std::size_t kShardsATask = 1024;
constexpr int kRetriesForMemory = 3;

/// Records in groups of about the same number of bytes.
std::vector<std::vector<ShardRecord>> groups_of(const std::vector<ShardRecord>& records) {
  std::vector<std::vector<ShardRecord>> out;
  std::uint64_t bytes = kBytesATask;
  for (const ShardRecord& record : records) {
    if (bytes >= kBytesATask || out.back().size() >= kShardsATask) {
      out.emplace_back();
      bytes = 0;
    }
    bytes += record.bytes;
    out.back().push_back(record);
  }
  return out;
}

std::string what_differs(const RemadeShard& again, const ShardRecord& record) {
  if (again.sha256 == record.sha256 && again.rows == record.rows) return {};
  return fmt::format("NondeterministicError: made again it has {} rows, {} bytes, sha-256 {}; the manifest says {} "
                     "rows, {} bytes, {}", again.rows, again.bytes, hex(again.sha256), record.rows, record.bytes,
                     hex(record.sha256));
}

}  // namespace

VerifyReport verify(const fs::path& out, const DatasetFolder& dataset, const VerifySettings& settings) {
  const auto started = std::chrono::steady_clock::now();
  const Plan& plan = dataset.config.plan;
  VerifyReport report;
  report.shards = plan.shards();
  ReadManifest read = read_shards(out, dataset, ShardNames::make(dataset.config)).value();
  report.notes = std::move(read.notes);
  report.missing = plan.shards() - read.manifest.size();
  report.digest = hex(read.manifest.digest());
  const std::vector<ShardRecord> records = read.manifest.in_order();

  // The files are this machine's to read.
  const std::string home = troupe::runtime_context().node_id;
  const auto check = troupe::task<&check_files>.options({.scheduling = troupe::NodeAffinity{.node_id = home}});
  const auto groups = groups_of(records);
  std::vector<troupe::ObjectRef<std::vector<FileProblem>>> checks;
  for (const auto& group : groups) checks.push_back(check.remote(out.string(), group));
  const auto place = troupe::put(RunPlace{
      .config = dataset.config.canonical(), .out = out.string(), .token = {}, .home = home});
  const std::uint64_t again = std::min<std::uint64_t>(settings.regenerate, records.size());
  std::vector<troupe::ObjectRef<RemadeShard>> remade;
  std::vector<const ShardRecord*> chosen;
  const auto remake = troupe::task<&make_again>.options({.retry = {.max_oom_retries = kRetriesForMemory}});
  for (std::uint64_t i = 0; i < again; ++i) {
    chosen.push_back(&records[again == 1 ? 0 : i * (records.size() - 1) / (again - 1)]);
    remade.push_back(remake.remote(place, *plan.shard_of(chosen.back()->range)));
  }
  const std::uint64_t all = records.size() + again;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const std::vector<FileProblem> problems = troupe::get(checks[i]);
    for (std::size_t j = 0; j < problems.size(); ++j) {
      report.bytes += groups[i][j].bytes;
      if (!problems[j].what.empty())
        report.bad.push_back({groups[i][j], problems[j].what, problems[j].unreadable});
    }
    report.checked += problems.size();
    settings.progress(report.checked, all);
  }
  for (std::size_t i = 0; i < remade.size(); ++i) {
    const auto again_made = troupe::try_get(remade[i]);
    if (!again_made.ok()) {
      const troupe::Error& error = again_made.error();
      if (error.code() == troupe::ErrorCode::kCancelled) error.raise();
      report.not_made_again.push_back({*chosen[i], fmt::format("could not be made again: {}", error.message())});
    } else {
      ++report.made_again;
      const std::string what = what_differs(*again_made, *chosen[i]);
      if (!what.empty()) report.nondeterministic.push_back({*chosen[i], what});
    }
    settings.progress(report.checked + i + 1, all);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

}  // namespace datagen

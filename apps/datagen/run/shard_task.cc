#include "apps/datagen/run/shard_task.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/datagen/files/memory_sinks.h"
#include "apps/datagen/files/shard_file.h"
#include "apps/datagen/manifest/made_notes.h"
#include "apps/datagen/run/makers.h"
#include "apps/datagen/run/run_token.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

/// Attempts of this try before this one that had begun: each has left its file, the last one perhaps the shard itself.
/// Those of the driver's tries before, which end at `first_attempt`, it has counted, though their files are there, too.
std::uint32_t begun_before(ShardPlace place, std::uint32_t first_attempt) {
  const std::uint32_t before = place.attempt - first_attempt;
  std::error_code error;
  std::uint32_t out = fs::exists(place.file(), error) ? 1 : 0;
  while (place.attempt > first_attempt) {
    --place.attempt;
    if (fs::exists(place.aside(), error)) ++out;
  }
  return std::min(out, before);  // the shard itself may be of a try before
}

void refuse_other_run(const RunPlace& place, TokenEntry::State state) {
  if (state == TokenEntry::State::kOther)
    throw troupe::RuntimeEnvError(fmt::format("another run has taken over {}", place.out));
}

void write_file(Maker& maker, const ShardPlace& place, const ShardOrder& order, bool at_home, ShardOutcome& out) {
  out.wasted = begun_before(place, order.first_attempt);
  ShardFile file = ShardFile::create(place).value();
  out.record.rows = maker.write(order.shard, file).rows;
  const PublishedShard published = file.publish(order.committed).value();
  out.record.bytes = published.bytes;
  out.record.sha256 = published.sha256;
  out.was_there = published.was_there;
  note_made(place.folder / "manifest", place.epoch, maker.owner(), out.record);
  if (at_home) return;  // the coordinator does it, once for many
  sync_folder(place.file().parent_path()).value();
  out.folder_synced = true;
}

void write_memory(Maker& maker, std::uint64_t shard, std::uint32_t attempt, ShardOutcome& out) {
  MemorySink sink;
  out.record.rows = maker.write(shard, sink).rows;
  out.record.bytes = sink.written();
  out.record.sha256 = sha256(sink.bytes());
  out.wasted = attempt;  // of the runtime's: those of the driver's tries before it has counted
  out.travelled = true;
  troupe::ArrayBuilder<std::uint8_t> memory(sink.bytes().size());
  std::ranges::copy(sink.bytes(), std::as_writable_bytes(memory.span()).begin());
  out.bytes = std::move(memory).seal();
}

}  // namespace

ShardOutcome make_shard(const RunPlace& place, const ShardOrder& order) {
  const auto started = std::chrono::steady_clock::now();
  const troupe::RuntimeContext context = troupe::runtime_context();
  const bool at_home = context.node_id == place.home;
  LentMaker maker(place.config);
  const TokenEntry entry = enter_run(place.out, place.epoch, place.token);
  if (at_home) refuse_other_run(place, entry.state);
  if (at_home && entry.state == TokenEntry::State::kNone)
    throw troupe::CancelledError("the run is being ended, or another one has taken over");

  const std::uint32_t attempt = order.first_attempt + static_cast<std::uint32_t>(context.attempt);
  const ShardInfo info = maker->job().shard(order.shard);
  ShardOutcome out{.record = {.name = maker->job().format().shard_name(info), .range = info.range, .attempt = attempt},
                   .node = context.node_id,
                   .pid = context.pid};
  if (entry.state == TokenEntry::State::kInside) {
    try {
      write_file(*maker, {place.out, out.record.name, place.epoch, attempt}, order, at_home, out);
    } catch (const troupe::RuntimeEnvError&) {
      // It has removed our temporary: say that.
      refuse_other_run(place, enter_run(place.out, place.epoch, place.token).state);
      throw;
    }
  } else {
    write_memory(*maker, order.shard, attempt - order.first_attempt, out);
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return out;
}

NodeAnswer answer_for_node(const RunPlace& place) {
  NodeAnswer out;
  out.node = troupe::runtime_context().node_id;
  const TokenEntry entry = enter_run(place.out, place.epoch, place.token);
  out.shared = entry.state == TokenEntry::State::kInside;
  if (out.node == place.home) refuse_other_run(place, entry.state);
  try {
    const LentMaker maker(place.config);
  } catch (const troupe::Error& error) { out.problem = error.message(); }
  return out;
}

RemadeShard make_again(const RunPlace& place, std::uint64_t shard) {
  LentMaker maker(place.config);
  DigestSink sink;
  RemadeShard out;
  out.rows = maker->write(shard, sink).rows;
  out.bytes = sink.written();
  out.sha256 = sink.finish();
  return out;
}

std::vector<FileProblem> check_files(const std::string& out, const std::vector<ShardRecord>& records) {
  std::vector<FileProblem> problems;
  for (const ShardRecord& record : records) {
    const auto found = digest_of_file(fs::path(out) / record.name);
    FileProblem& problem = problems.emplace_back();
    if (!found.ok())
      problem = {.what = found.error().message(), .unreadable = found.error().code() == troupe::ErrorCode::kRuntimeEnv};
    else if (found->bytes != record.bytes)
      problem.what = fmt::format("{} bytes, and the manifest says {}", found->bytes, record.bytes);
    else if (found->sha256 != record.sha256)
      problem.what = fmt::format("sha-256 {}, and the manifest says {}", hex(found->sha256), hex(record.sha256));
  }
  return problems;
}

}  // namespace datagen

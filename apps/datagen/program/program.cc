#include "apps/datagen/program/program.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <variant>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <troupe/troupe.h>

#include "apps/common/output_file.h"
#include "apps/common/precise_json.h"
#include "apps/common/progress.h"
#include "apps/common/settings/setting.h"
#include "apps/datagen/formats/builtin.h"
#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/generators/builtin.h"
#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/program/command_line.h"
#include "apps/datagen/program/exit_codes.h"
#include "apps/datagen/program/result_json.h"
#include "apps/datagen/run/dataset_run.h"
#include "apps/datagen/run/verify.h"

namespace datagen {
namespace {

namespace fs = std::filesystem;

fs::path whole_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

bool terminal() { return ::isatty(STDERR_FILENO) != 0; }

std::string megabytes(double bytes) { return fmt::format("{:.1f} MB", bytes / 1e6); }

std::string progress_line(const RunReport& report, int bar_width) {
  const double seconds = report.seconds > 0 ? report.seconds : 1e-9;
  const double done = static_cast<double>(report.shards_done()), all = static_cast<double>(report.shards);
  const std::uint64_t left = report.shards - report.shards_done();
  const double made = static_cast<double>(report.shards_made);
  std::string out = fmt::format("{}{} of {} shards  {} rows/s  {}/s", apps::bar(done / all, bar_width),
                                apps::grouped(static_cast<std::int64_t>(report.shards_done())),
                                apps::grouped(static_cast<std::int64_t>(report.shards)),
                                apps::short_rate(static_cast<double>(report.rows_made) / seconds),
                                megabytes(static_cast<double>(report.bytes_made) / seconds));
  if (report.retries > 0) out += fmt::format("  {} retries", report.retries);
  if (report.wasted_rows > 0) out += fmt::format("  {} rows wasted", report.wasted_rows);
  if (left > 0 && made > 0)
    out += fmt::format("  {} left", apps::clock_time(static_cast<double>(left) / made * report.seconds));
  return out;
}

/// What the user reads when it is over.
void print_report(const fs::path& out, const RunReport& report) {
  fmt::print("{}: {} shards, {} rows, {}; {} of them made in {:.2f} s ({} rows/s, {}/s)\n", out.string(),
             report.shards, apps::grouped(static_cast<std::int64_t>(report.rows)),
             megabytes(static_cast<double>(report.bytes)), report.shards_made, report.seconds,
             apps::short_rate(report.seconds > 0 ? static_cast<double>(report.rows_made) / report.seconds : 0),
             megabytes(report.seconds > 0 ? static_cast<double>(report.bytes_made) / report.seconds : 0));
  if (!report.check_line.empty()) fmt::print("{}\n", report.check_line);
  fmt::print("digest {}\n", report.digest);
}

int go_on(const fs::path& out, const DatasetFolder& dataset, const RunSettings& settings) {
  apps::ProgressReporter progress(stderr, terminal());
  const auto started = std::chrono::steady_clock::now();
  const auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  };
  DatasetRun run(out, dataset, settings,
                 {.progress =
                      [&](const RunReport& report) {
                        progress.update(elapsed(), [&](int width) { return progress_line(report, width); },
                                        report.finished());
                      },
                  .note = [&](const std::string& text) { progress.note(text); }});
  const auto keep_result = [&](std::string_view status, std::string_view error) {
    if (run.report().taken_over) return;
    const auto written = apps::write_file(out / "result.json", run_json(dataset, run.report(), status, error));
    if (!written.ok()) progress.note(written.error().message());
  };
  const auto stopped = [&](std::string_view status, const std::string& why, int code) {
    keep_result(status, why);
    progress.note(fmt::format("{}\n{} of {} shards are committed: 'datagen resume {}' goes on", why,
                              run.report().shards_done(), run.report().shards, out.string()));
    return code;
  };
  try {
    run.run();
  } catch (const troupe::CancelledError& error) {
    if (troupe::runtime_context().cancelled()) return stopped("interrupted", "interrupted", kExitInterrupted);
    return stopped("failed", error.what(), kExitFailed);
  } catch (const std::exception& error) { return stopped("failed", error.what(), kExitFailed); }
  keep_result("done", "");
  print_report(out, run.report());
  return 0;
}

int failed(const troupe::Error& error) {
  fmt::print(stderr, "{}\n", error.message());
  return kExitFailed;
}

/// What a user can mend on the command line is wrong usage.
int refused(const troupe::Error& error) {
  const bool usage =
      error.code() == troupe::ErrorCode::kInvalidArgument || error.code() == troupe::ErrorCode::kNotFound;
  fmt::print(stderr, "{}\n", error.message());
  return usage ? kExitUsage : kExitFailed;
}

/// What the generator of a configuration gives; an error where the format has no place for it.
troupe::Result<Schema> schema_of(const JobConfig& config) {
  auto job = Job::make(config);
  if (!job.ok()) return job.error_ptr();
  const auto generator = job->generator().make(job->context());
  if (!generator.ok()) return generator.error_ptr();
  const Schema& schema = (*generator)->schema();
  if (troupe::Status status = check_schema(schema); !status.ok()) return status.error_ptr();
  if (troupe::Status fits = job->format().check(schema); !fits.ok()) return fits.error_ptr();
  return schema;
}

int execute(const RunCommand& command) {
  const fs::path out = whole_path(command.out);
  const auto config = configure(command.choices);
  if (!config.ok()) return refused(config.error());
  if (const auto schema = schema_of(*config); !schema.ok()) return refused(schema.error());  // before a folder is made
  const auto dataset = open_dataset(out, *config, command.name);
  if (!dataset.ok()) return refused(dataset.error());
  return go_on(out, *dataset, command.settings);
}

int execute(const ResumeCommand& command) {
  const fs::path out = whole_path(command.out);
  const auto dataset = read_dataset(out);
  if (!dataset.ok()) return refused(dataset.error());
  if (troupe::Status trusted = check_programs(dataset->config); !trusted.ok()) return refused(trusted.error());
  const auto now = configure_again(dataset->config);
  if (!now.ok()) return refused(now.error());
  const auto same = open_dataset(out, *now, "");
  if (!same.ok()) return refused(same.error());
  return go_on(out, *same, command.settings);
}

int execute(const PlanCommand& command) {
  const auto config = configure(command.choices);
  if (!config.ok()) return refused(config.error());
  const auto schema = schema_of(*config);
  if (!schema.ok()) return refused(schema.error());
  auto job = Job::make(*config);
  if (!job.ok()) return refused(job.error());
  const Plan& plan = config->plan;
  fmt::print("{} samples of {} in {} shards of {}, as {}, {}\nconfiguration {}\n  {}\n", plan.samples,
             config->generator.name, plan.shards(), plan.samples_per_shard, config->format.name,
             troupe::kernels::isa_name(config->isa), hex(config->hash()), config->canonical());
  fmt::print("columns\n");
  for (const Field& field : schema->fields)
    fmt::print("  {}: {}{}{}\n", field.name, name_of(field.type),
               field.shape.empty() ? "" : fmt::format(" [{}]", fmt::join(field.shape, ", ")),
               field.nullable ? ", or none" : "");
  fmt::print("shards\n");
  for (const std::uint64_t shard : {std::uint64_t{0}, plan.shards() - 1}) {
    const SampleRange range = plan.range(shard);
    fmt::print("  {}: samples {} to {}\n", job->format().shard_name(job->shard(shard)), range.begin, range.end - 1);
    if (plan.shards() == 1) break;
    if (shard == 0 && plan.shards() > 2) fmt::print("  ...\n");
  }
  return 0;
}

int execute(const VerifyCommand& command) {
  const fs::path out = whole_path(command.out);
  const auto dataset = read_dataset(out);
  if (!dataset.ok()) return refused(dataset.error());
  if (troupe::Status trusted = check_programs(dataset->config); command.regenerate > 0 && !trusted.ok())
    return refused(trusted.error());
  apps::ProgressReporter progress(stderr, terminal());
  const auto started = std::chrono::steady_clock::now();
  VerifyReport report;
  try {
    report = verify(out, *dataset,
                    {.regenerate = command.regenerate, .progress = [&](std::uint64_t done, std::uint64_t all) {
                       const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - started;
                       progress.update(seconds.count(),
                                       [&](int) { return fmt::format("{} of {} shards looked at", done, all); },
                                       done == all);
                     }});
  } catch (const troupe::CancelledError&) { return kExitInterrupted; } catch (const troupe::Error& error) {
    return failed(error);
  }
  for (const std::string& note : report.notes) fmt::print("{}\n", note);
  std::size_t unreadable = 0, kept = 0;
  for (const BadShard& bad : report.bad) {
    fmt::print("bad: {}: {}\n", bad.record.name, bad.what);
    std::error_code error;
    unreadable += bad.unreadable ? 1 : 0;
    if (command.remove_bad && !bad.unreadable) fs::remove(out / bad.record.name, error);
    if (!error) continue;
    ++kept;
    fmt::print("{} could not be removed: {}\n", bad.record.name, error.message());
  }
  for (const auto* list : {&report.nondeterministic, &report.not_made_again})
    for (const BadShard& bad : *list) fmt::print("bad: {}: {}\n", bad.record.name, bad.what);
  if (report.missing > 0)
    fmt::print("{} of {} shards are missing: 'datagen resume {}' makes them\n", report.missing, report.shards,
               out.string());
  if (unreadable > 0)
    fmt::print("{} files could not be read and are left as they are: what is wrong may not be in them\n", unreadable);
  if (report.bad.size() > unreadable)
    fmt::print("{} files are not what the manifest says: {}\n", report.bad.size() - unreadable,
               !command.remove_bad ? "'datagen verify --remove-bad', then 'datagen resume', makes them again"
               : kept > 0 ? fmt::format("{} of them could not be removed, 'datagen resume' makes the rest again", kept)
                          : "they were removed, 'datagen resume' makes them again");
  fmt::print("{}: {} shards checked ({}), {} made again, {:.2f} s: {}\n", out.string(), report.checked,
             megabytes(static_cast<double>(report.bytes)), report.made_again, report.seconds,
             report.good() ? "good" : "not good");
  fmt::print("digest {}\n", report.digest);
  return report.good() ? 0 : kExitFailed;
}

int execute(const ShowCommand& command) {
  const fs::path out = whole_path(command.out);
  const auto dataset = read_dataset(out);
  if (!dataset.ok()) return refused(dataset.error());
  const std::uint64_t shards = dataset->config.plan.shards();
  const auto read = read_manifest(out / "manifest", {.job = dataset->config.hash(), .shards = shards});
  if (!read.ok()) return failed(read.error());
  const Manifest& manifest = read->manifest;
  if (command.json) {
    boost::json::array list;
    for (const ShardRecord& record : manifest.in_order())
      list.push_back(boost::json::object{{"name", record.name},
                                         {"begin", record.range.begin},
                                         {"end", record.range.end},
                                         {"rows", record.rows},
                                         {"bytes", record.bytes},
                                         {"sha256", hex(record.sha256)},
                                         {"attempt", record.attempt}});
    const boost::json::object all{{"name", dataset->name},
                                  {"digest", hex(manifest.digest())},
                                  {"epoch", read->epoch},
                                  {"shards", shards},
                                  {"rows", manifest.rows()},
                                  {"bytes", manifest.bytes()},
                                  {"notes", boost::json::value_from(read->notes)},
                                  {"config", apps::parse_json(dataset->config.canonical())},
                                  {"done", std::move(list)}};
    fmt::print("{}\n", boost::json::serialize(all));
    return 0;
  }
  for (const std::string& note : read->notes) fmt::print("{}\n", note);
  fmt::print("{}: {} of {} shards, {} rows, {}; epoch {}\nconfiguration {}\n", dataset->name, manifest.size(), shards,
             apps::grouped(static_cast<std::int64_t>(manifest.rows())),
             megabytes(static_cast<double>(manifest.bytes())), read->epoch, hex(dataset->config.hash()));
  for (const auto& member : dataset->config.to_json())
    fmt::print("  {}: {}\n", std::string_view(member.key()), canonical_text(member.value()));
  fmt::print("digest {}{}\n", hex(manifest.digest()), manifest.size() == shards ? "" : " (of what is there)");
  return 0;
}

template <class Kind> void list_kinds(const char* what, const std::vector<Kind>& kinds) {
  fmt::print("{}\n", what);
  for (const Kind& kind : kinds) {
    fmt::print("  {:<16} {}\n", kind.name, kind.help);
    const auto options = kind.options();
    for (const apps::Setting& setting : options->settings())
      fmt::print("      {:<24} {}\n", apps::flag_of(setting), help_of(setting));
  }
}

int execute(const ListCommand&) {
  list_kinds("generators", generator_kinds());
  fmt::print("\n");
  list_kinds("formats", format_kinds());
  return 0;
}

int execute(const ExitNow& exit_now) { return exit_now.code; }

}  // namespace

troupe::Status register_builtins() {
  if (troupe::Status status = register_builtin_generators(); !status.ok()) return status;
  return register_builtin_formats();
}

int run_program(std::span<char* const> arguments) {
  try {
    return std::visit([](const auto& command) { return execute(command); }, parse_command_line(arguments));
  } catch (const fs::filesystem_error& error) {  // as where the working folder was removed
    fmt::print(stderr, "{}\n", error.what());
    return kExitFailed;
  }
}

}  // namespace datagen

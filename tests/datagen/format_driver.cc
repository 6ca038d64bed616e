// Writes a data set that tests know with one format, without a cluster: three shards of seven samples.
//
//   datagen_format_driver FORMAT TABLE OUT [SETTING=VALUE ...]      TABLE: "rows" or "episodes"
//
// formats_test.py has the same values by the same formulas.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include <fmt/format.h>

#include "apps/datagen/formats/builtin.h"
#include "apps/datagen/formats/format_registry.h"
#include "tests/datagen/known_tables.h"

namespace {

class FileSink final : public datagen::ByteSink {
 public:
  explicit FileSink(const std::filesystem::path& path) {
    std::filesystem::create_directories(path.parent_path());
    file_.open(path, std::ios::binary);
  }
  void write(std::span<const std::byte> bytes) override {
    file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file_) troupe::RuntimeEnvError("cannot write").raise();
    written_ += bytes.size();
  }
  [[nodiscard]] std::uint64_t written() const override { return written_; }

 private:
  std::ofstream file_;
  std::uint64_t written_ = 0;
};

void assign_all(datagen::FormatOptions& options, std::span<char* const> assignments) {
  const auto settings = options.settings();
  for (const std::string assignment : assignments) {
    const std::size_t at = assignment.find('=');
    for (const apps::Setting& setting : settings)
      if (setting.name == assignment.substr(0, at)) apps::assign_text(setting, assignment.substr(at + 1)).value();
  }
}

int write_dataset(std::span<char* const> arguments) {
  datagen::register_builtin_formats().value();
  const auto options = datagen::find_format(arguments[1]).value().options();
  assign_all(*options, arguments.subspan(4));
  const datagen_test::KnownTable known = datagen_test::known_table(arguments[2]);
  const std::filesystem::path out = arguments[3];
  if (const auto libraries = options->libraries(); !libraries.ok()) {
    std::fprintf(stderr, "%s\n", libraries.error().what());
    return 77;
  }
  options->check(*known.schema).value();
  datagen::FinishedDataset dataset{
      .folder = out, .name = out.filename().string(), .schema = known.schema, .shards = {}};
  for (std::uint64_t shard = 0; shard < datagen_test::kShards; ++shard) {
    const datagen::ShardInfo info = datagen_test::shard_info(shard);
    const std::string name = options->shard_name(info);
    FileSink sink(out / name);
    const auto writer = options->open(known.schema, info, sink).value();
    std::uint64_t rows = 0;
    known.generate(info.range, [&](const datagen::Table& table) {
      writer->append(table);
      rows += table.rows();
    });
    writer->finish();
    dataset.shards.push_back({.name = name, .range = info.range, .rows = rows, .bytes = sink.written()});
  }
  const auto files = options->finish_dataset(dataset).value();
  for (const std::string& file : files) std::printf("%s\n", file.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  try {
    return write_dataset({argv, static_cast<std::size_t>(argc)});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

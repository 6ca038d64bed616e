#include "apps/datagen/formats/parquet/parquet.h"

#include "apps/datagen/formats/parquet/parquet_plugin.h"
#include "apps/datagen/formats/plugin/plugin_file.h"
#include "apps/datagen/formats/shard_path.h"

namespace datagen {
namespace {

class ParquetOptions final : public FormatOptions {
 public:
  std::vector<apps::Setting> settings() override {
    ParquetProperties& p = properties_;
    return {{.name = "compression", .help = "Of pages", .value = &p.compression,
             .choices = {"none", "snappy", "lz4", "zstd"}},
            {.name = "compression_level", .help = "Of zstd", .value = &p.level, .least = 1, .most = 22},
            {.name = "row_group_rows", .help = "Rows of a row group", .value = &p.row_group_rows, .least = 1,
             .most = 1 << 30},
            {.name = "page_bytes", .help = "A page ends at this size", .value = &p.page_bytes, .least = 1 << 10,
             .most = 1 << 30},
            {.name = "dictionary", .help = "Write values that repeat once; slow where they do not",
             .value = &p.dictionary},
            {.name = "statistics", .help = "Least and greatest value of columns, for readers that skip row groups",
             .value = &p.statistics}};
  }

  troupe::Result<std::map<std::string, std::string>> libraries() override {
    const auto plugin = parquet_plugin();
    if (!plugin.ok()) return plugin.error_ptr();
    return std::map<std::string, std::string>{{"arrow", (*plugin)->library_version()}};
  }

  std::string shard_name(const ShardInfo& shard) const override { return shard_path(shard, "part", "parquet"); }
  troupe::Status check(const Schema& schema) const override { return check_schema(schema); }

  troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema> schema, const ShardInfo&,
                                                    ByteSink& sink) override {
    const auto plugin = parquet_plugin();
    if (!plugin.ok()) return plugin.error_ptr();
    return (*plugin)->open_writer(schema, properties_, sink);
  }

 private:
  ParquetProperties properties_;
};

}  // namespace

troupe::Result<const ParquetPlugin*> parquet_plugin() {
  static const auto opened = open_plugin({.file = "libdatagen_parquet.so",
                                          .function = kParquetPluginFunction,
                                          .version = kParquetPluginVersion,
                                          .needs = "Parquet needs Arrow C++"});
  if (!opened.ok()) return opened.error_ptr();
  return static_cast<const ParquetPlugin*>(*opened);
}

FormatKind parquet_format() {
  return {.name = "parquet",
          .help = "columns and row groups, by Arrow C++",
          .options = [] { return std::make_unique<ParquetOptions>(); }};
}

}  // namespace datagen

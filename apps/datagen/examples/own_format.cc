// A template: a format of your own, under all verbs and generators of `datagen`: here CSV.
//
//   own_format run --generator option-prices --samples 100000 --format csv --separator ";" --out prices
#include <memory>
#include <string>

#include <fmt/format.h>
#include <troupe/troupe.h>

#include "apps/datagen/formats/format_registry.h"
#include "apps/datagen/formats/shard_path.h"
#include "apps/datagen/formats/text/json_text.h"
#include "apps/datagen/program/program.h"

namespace {

/// One shard. What it writes depends on settings, schema and tables alone: no time, no name of a machine.
class CsvWriter final : public datagen::ShardWriter {
 public:
  CsvWriter(const datagen::Schema& schema, std::string separator, datagen::ByteSink& sink)
      : separator_(std::move(separator)), sink_(sink) {
    for (const datagen::Field& field : schema.fields) put(field.name);
    line_.back() = '\n';
  }

  void append(const datagen::Table& table) override {
    for (std::size_t row = 0; row < table.rows(); ++row) {
      for (std::size_t i = 0; i < table.schema().fields.size(); ++i) {
        std::string value;
        if (!table.column(i).is_null(row)) datagen::append_json(value, table.column(i), row);
        put(value);
      }
      line_.back() = '\n';  // in the place of the last separator
    }
    flush();
  }

  void finish() override { flush(); }  // everything is with the sink; it throws when it has no room

 private:
  void put(const std::string& value) { (line_ += value) += separator_; }
  void flush() {
    sink_.write(std::as_bytes(std::span(line_)));
    line_.clear();
  }

  std::string separator_, line_;
  datagen::ByteSink& sink_;
};

/// What flags set, and what the shards are called.
class CsvOptions final : public datagen::FormatOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "separator", .help = "Between values", .value = &separator_, .choices = {",", ";", "|"}}};
  }
  std::string shard_name(const datagen::ShardInfo& shard) const override {
    return datagen::shard_path(shard, "part", "csv");
  }
  troupe::Status check(const datagen::Schema& schema) const override {
    for (const datagen::Field& field : schema.fields)
      if (!field.shape.empty() || datagen::size_of(field.type) == 0)  // of one number a column
        return troupe::InvalidArgumentError(fmt::format("a CSV has no place for column '{}'", field.name));
    return datagen::check_schema(schema);
  }
  troupe::Result<std::unique_ptr<datagen::ShardWriter>> open(std::shared_ptr<const datagen::Schema> schema,
                                                             const datagen::ShardInfo&,
                                                             datagen::ByteSink& sink) override {
    return std::unique_ptr<datagen::ShardWriter>(std::make_unique<CsvWriter>(*schema, separator_, sink));
  }

 private:
  std::string separator_ = ",";
};

}  // namespace

int main(int argc, char** argv) {
  datagen::register_builtins().value();
  datagen::register_format({.name = "csv", .help = "Lines of values", .options = [] {
                              return std::make_unique<CsvOptions>();
                            }}).value();  // here, so that worker processes have it too
  return troupe::run(argc, argv, &datagen::run_program);
}

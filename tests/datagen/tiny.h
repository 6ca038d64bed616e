// A generator and a format of a few lines: what the engine's tests make data sets of.
//
//   numbers   a row a sample: its index and a random number; `rows` rows a table
//   lines     a line a row
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "apps/datagen/formats/format.h"
#include "apps/datagen/generators/generator.h"
#include "apps/datagen/random/stream.h"

namespace datagen::test {

class Numbers final : public Generator {
 public:
  explicit Numbers(std::uint64_t seed) : seed_(seed) {}
  [[nodiscard]] const Schema& schema() const override { return *schema_; }
  void generate(SampleRange range, const TableSink& sink) override {
    Table table(schema_);
    table.resize(range.size());
    for (std::uint64_t i = 0; i < range.size(); ++i) {
      Stream stream(seed_, 0, range.begin + i);
      table.column(0).values<std::int64_t>()[i] = static_cast<std::int64_t>(range.begin + i);
      table.column(1).values<double>()[i] = stream.uniform();
    }
    table.rows_are_samples();
    sink(table);
  }

 private:
  std::uint64_t seed_;
  std::shared_ptr<const Schema> schema_ = std::make_shared<const Schema>(
      Schema{.fields = {{.name = "index", .type = Type::kInt64}, {.name = "number", .type = Type::kFloat64}}});
};

class NumbersOptions final : public GeneratorOptions {
 public:
  [[nodiscard]] std::vector<apps::Setting> settings() override {
    return {{.name = "scale", .help = "Nothing changes with it but the configuration", .value = &scale_, .least = 0},
            {.name = "label", .help = "A word", .value = &label_}};
  }
  [[nodiscard]] troupe::Result<boost::json::object> identity() override {
    return boost::json::object{{"policy", policy_digest}};
  }
  [[nodiscard]] troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    return std::unique_ptr<Generator>(std::make_unique<Numbers>(context.seed));
  }
  static inline std::string policy_digest = "0123";

 private:
  double scale_ = 1;
  std::string label_ = "none";
};

inline GeneratorKind numbers(int version = 1) {
  return {.name = "numbers",
          .help = "Numbers",
          .version = version,
          .options = [] { return std::make_unique<NumbersOptions>(); },
          .samples_per_shard = 10};
}

class LinesWriter final : public ShardWriter {
 public:
  explicit LinesWriter(ByteSink& sink) : sink_(sink) {}
  void append(const Table& table) override {
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const std::string line = fmt::format("{} {:a}\n", table.column(0).values<std::int64_t>()[row],
                                           table.column(1).values<double>()[row]);
      sink_.write(std::as_bytes(std::span(line)));
    }
  }
  void finish() override {}

 private:
  ByteSink& sink_;
};

class LinesOptions final : public FormatOptions {
 public:
  [[nodiscard]] std::vector<apps::Setting> settings() override { return {}; }
  [[nodiscard]] troupe::Result<std::map<std::string, std::string>> libraries() override {
    return std::map<std::string, std::string>{{"lines", library}};
  }
  [[nodiscard]] std::string shard_name(const ShardInfo& shard) const override {
    return fmt::format("data/part-{:05}.txt", shard.index);
  }
  [[nodiscard]] troupe::Status check(const Schema& schema) const override {
    if (schema.fields.size() == 2) return {};
    return troupe::InvalidArgumentError("lines have two columns");
  }
  [[nodiscard]] troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema>, const ShardInfo&,
                                                                  ByteSink& sink) override {
    return std::unique_ptr<ShardWriter>(std::make_unique<LinesWriter>(sink));
  }
  static inline std::string library = "1.0";
};

inline FormatKind lines() {
  return {.name = "lines", .help = "Lines", .version = 1, .options = [] { return std::make_unique<LinesOptions>(); }};
}

}  // namespace datagen::test

// RowsGenerator: a generator whose samples are single rows, one after the other: what is left to write is one row.
//
//   class Spirals final : public RowsGenerator {
//     void row(std::uint64_t sample, std::size_t row, Table& table) override { ... }
//   };
//
// One thread at a time.
//
// RGN-1  Tables have as many rows as it was made for (kRows), the last of a range what is left (GEN-1).
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "apps/datagen/generators/generator.h"

namespace datagen {

class RowsGenerator : public Generator {
 public:
  static constexpr std::uint64_t kRows = 1024;

  [[nodiscard]] const Schema& schema() const override { return table_.schema(); }
  void generate(SampleRange range, const TableSink& sink) final {
    for (std::uint64_t begin = range.begin; begin < range.end; begin += rows_) {
      const std::uint64_t rows = std::min(rows_, range.end - begin);
      table_.clear();
      table_.resize(rows);
      for (std::uint64_t i = 0; i < rows; ++i) row(begin + i, i, table_);
      table_.rows_are_samples();
      sink(table_);
    }
  }

 protected:
  explicit RowsGenerator(Schema schema, std::uint64_t rows = kRows)
      : rows_(rows), table_(std::make_shared<const Schema>(std::move(schema))) {}
  /// Writes sample number `sample` to a row of the table, which is zeros so far; text and bytes are appended.
  virtual void row(std::uint64_t sample, std::size_t row, Table& table) = 0;

 private:
  std::uint64_t rows_;
  Table table_;
};

}  // namespace datagen

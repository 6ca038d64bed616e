// Table: rows in memory, column by column, and where samples end among them: what generators give and formats take.
//
//   sample 7 = rows [ends[6], ends[7])      a step of an episode is a row; a picture is a sample of one row
//
// Memory of a column is one piece, aligned to 64 bytes, in C order: formats may hand it on without a copy.
//
// One thread at a time.
//
// TBL-1  All columns have rows() values; the last sample ends at rows().
// TBL-2  What a null holds is zeros, so that bytes of files do not depend on what was in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "apps/datagen/table/column.h"
#include "apps/datagen/table/schema.h"

namespace datagen {

class Table {
 public:
  explicit Table(std::shared_ptr<const Schema> schema);

  [[nodiscard]] const Schema& schema() const { return *schema_; }
  [[nodiscard]] const std::shared_ptr<const Schema>& shared_schema() const { return schema_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t samples() const { return ends_.size(); }
  /// One behind the last row of each sample.
  [[nodiscard]] std::span<const std::uint64_t> sample_ends() const { return ends_; }
  [[nodiscard]] const Column& column(std::size_t index) const { return columns_[index]; }

  /// To fill it: resize the rows (values of new rows are zeros, none is null), write the columns, then say where
  /// samples end. Text and bytes are appended, row by row (Column::append).
  void resize(std::size_t rows);
  [[nodiscard]] Column& column(std::size_t index) { return columns_[index]; }
  /// InvalidArgumentError, thrown, when it is not above the last one or above rows().
  void end_sample(std::size_t row);
  /// Each row is a sample.
  void rows_are_samples();
  /// No rows; memory is kept for the next ones.
  void clear();
  /// TBL-1; InvalidArgumentError that names the column.
  [[nodiscard]] troupe::Status check() const;

  /// Bytes of all values.
  [[nodiscard]] std::size_t bytes() const;

 private:
  std::shared_ptr<const Schema> schema_;
  std::vector<Column> columns_;
  std::vector<std::uint64_t> ends_;
  std::size_t rows_ = 0;
};

}  // namespace datagen

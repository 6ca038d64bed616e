#include "apps/datagen/table/table.h"

#include <numeric>

#include <fmt/format.h>

namespace datagen {

Table::Table(std::shared_ptr<const Schema> schema) : schema_(std::move(schema)) {
  columns_.reserve(schema_->fields.size());
  for (const Field& field : schema_->fields) columns_.emplace_back(field);
}

void Table::resize(std::size_t rows) {
  for (Column& column : columns_)
    if (size_of(column.field().type) != 0) column.resize(rows);
  rows_ = rows;
}

void Table::end_sample(std::size_t row) {
  const std::uint64_t last = ends_.empty() ? 0 : ends_.back();
  if (row <= last || row > rows_)
    troupe::InvalidArgumentError(
        fmt::format("a sample that ends at row {}: the one before ends at {}, the last row is {}", row, last, rows_))
        .raise();
  ends_.push_back(row);
}

void Table::rows_are_samples() {
  ends_.resize(rows_);
  std::iota(ends_.begin(), ends_.end(), std::uint64_t{1});
}

void Table::clear() {
  for (Column& column : columns_) column.clear();
  ends_.clear();
  rows_ = 0;
}

troupe::Status Table::check() const {
  for (const Column& column : columns_)
    if (column.rows() != rows_)
      return troupe::InvalidArgumentError(fmt::format("column '{}' has {} rows, the table {}", column.field().name,
                                                      column.rows(), rows_));
  const std::uint64_t last = ends_.empty() ? 0 : ends_.back();
  if (last != rows_)
    return troupe::InvalidArgumentError(fmt::format("the last sample ends at row {} of {}", last, rows_));
  return {};
}

std::size_t Table::bytes() const {
  std::size_t sum = 0;
  for (const Column& column : columns_) sum += column.data().size();
  return sum;
}

}  // namespace datagen

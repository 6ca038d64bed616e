#include "apps/datagen/table/column.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace datagen {

Column::Column(const Field& field) : field_(field) {
  if (size_of(field.type) == 0) offsets_.push_back(0);
}

std::string_view Column::text(std::size_t row) const {
  if (offsets_.empty())
    troupe::InvalidArgumentError(
        fmt::format("column '{}' is {}, and read as text", field_.name, name_of(field_.type)))
        .raise();
  return {reinterpret_cast<const char*>(data_.data()) + offsets_[row],
          static_cast<std::size_t>(offsets_[row + 1] - offsets_[row])};
}

void Column::resize(std::size_t rows) {
  const std::size_t before = data_.size();
  data_.resize(rows * field_.elements() * size_of(field_.type));
  if (data_.size() > before) std::memset(data_.data() + before, 0, data_.size() - before);
  if (!valid_.empty()) valid_.resize(rows, 1);
  rows_ = rows;
}

void Column::append(std::string_view value) {
  append(std::span(reinterpret_cast<const std::byte*>(value.data()), value.size()));
}

void Column::append(std::span<const std::byte> value) {
  const std::span<std::byte> room = append(value.size());
  if (!value.empty()) std::memcpy(room.data(), value.data(), value.size());
}

std::span<std::byte> Column::append(std::size_t bytes) {
  if (offsets_.empty())
    troupe::InvalidArgumentError(
        fmt::format("column '{}' is {}, and text was appended", field_.name, name_of(field_.type)))
        .raise();
  const std::size_t before = data_.size();
  data_.resize(before + bytes);  // insert() goes byte by byte with an allocator of one's own
  offsets_.push_back(static_cast<std::int64_t>(data_.size()));
  if (!valid_.empty()) valid_.push_back(1);
  ++rows_;
  return std::span(data_).subspan(before);
}

void Column::set_null(std::size_t row) {
  if (!field_.nullable)
    troupe::InvalidArgumentError(fmt::format("column '{}' has a value in every row", field_.name)).raise();
  if (row >= rows_)
    troupe::InvalidArgumentError(fmt::format("column '{}' has {} rows, not row {}", field_.name, rows_, row)).raise();
  if (valid_.empty()) valid_.assign(rows_, 1);
  valid_[row] = 0;
  if (offsets_.empty()) {  // TBL-2
    const std::size_t size = field_.elements() * size_of(field_.type);
    std::memset(data_.data() + row * size, 0, size);
  } else if (offsets_[row + 1] != offsets_[row]) {
    troupe::InvalidArgumentError(fmt::format("row {} of column '{}' has a text, and no value", row, field_.name))
        .raise();
  }
}

void Column::clear() {
  rows_ = 0;
  data_.clear();
  valid_.clear();
  if (!offsets_.empty()) offsets_.assign(1, 0);
}

void Column::check_type(Type type) const {
  if (type != field_.type)
    troupe::InvalidArgumentError(fmt::format("column '{}' is {}, not {}", field_.name, name_of(field_.type),
                                             name_of(type)))
        .raise();
}

}  // namespace datagen

// Column: the values of one field, row after row.
//
//   numbers        data(): rows() * elements() of them, in C order, aligned to 64 bytes
//   text, bytes    data() one after the other, offsets(): rows() + 1 places in it
//
// One thread at a time.
//
// COL-1  offsets() begins with 0, never falls, and ends with the size of data().
// COL-2  New rows of numbers are zeros, whatever the memory held before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/table/aligned.h"
#include "apps/datagen/table/schema.h"

namespace datagen {

class Column {
 public:
  explicit Column(const Field& field);

  [[nodiscard]] const Field& field() const { return field_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::span<const std::byte> data() const { return data_; }
  [[nodiscard]] std::span<const std::int64_t> offsets() const { return offsets_; }
  /// A byte a row, 1: there is a value. Empty: all rows have one.
  [[nodiscard]] std::span<const std::uint8_t> valid() const { return valid_; }
  [[nodiscard]] bool is_null(std::size_t row) const { return !valid_.empty() && valid_[row] == 0; }

  /// All numbers of the column. InvalidArgumentError, thrown, when the field's type is another than T.
  template <class T> [[nodiscard]] std::span<const T> values() const {
    check_type(type_for<T>());
    return {reinterpret_cast<const T*>(data_.data()), data_.size() / sizeof(T)};
  }
  template <class T> [[nodiscard]] std::span<T> values() {
    check_type(type_for<T>());
    return {reinterpret_cast<T*>(data_.data()), data_.size() / sizeof(T)};
  }
  /// Numbers only: the bytes of all of them, to be written.
  [[nodiscard]] std::span<std::byte> mutable_data() { return data_; }
  /// Of text or bytes.
  [[nodiscard]] std::string_view text(std::size_t row) const;

  /// Numbers only: zeros in new rows (COL-2).
  void resize(std::size_t rows);
  /// Text and bytes only: one more row.
  void append(std::string_view value);
  void append(std::span<const std::byte> value);
  /// Bytes only: one more row of so many, whose values are the caller's to write.
  [[nodiscard]] std::span<std::byte> append(std::size_t bytes);
  /// The row has no value; its memory is zeros (text: empty). InvalidArgumentError, thrown, when the field is not
  /// nullable.
  void set_null(std::size_t row);
  void clear();

 private:
  template <class T> static constexpr Type type_for();
  void check_type(Type type) const;

  Field field_;
  std::size_t rows_ = 0;
  AlignedBytes data_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::uint8_t> valid_;
};

template <class T> constexpr Type Column::type_for() {
  if constexpr (std::is_same_v<T, bool>) return Type::kBool;
  else if constexpr (std::is_same_v<T, std::uint8_t>) return Type::kUInt8;
  else if constexpr (std::is_same_v<T, std::int32_t>) return Type::kInt32;
  else if constexpr (std::is_same_v<T, std::int64_t>) return Type::kInt64;
  else if constexpr (std::is_same_v<T, float>) return Type::kFloat32;
  else {
    static_assert(std::is_same_v<T, double>, "a type of a column");
    return Type::kFloat64;
  }
}

}  // namespace datagen

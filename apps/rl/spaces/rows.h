// Rows: a batch of elements of one space, in C order, in memory of somebody else: row i is `width` numbers of type
// `dtype`. As a span is to a vector; ConstRows may only be read.
//
// RWS-1  as<T>() is for the type that the rows are of; another one throws InvalidArgumentError.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <troupe/error.h>

#include "apps/rl/spaces/space.h"

namespace rl {

namespace detail {
[[noreturn]] void raise_dtype(DType wanted, DType actual);
}

template <class Byte>
class BasicRows {
 public:
  BasicRows() = default;
  BasicRows(DType dtype, std::size_t rows, std::size_t width, Byte* data)
      : data_(data), rows_(rows), width_(width), dtype_(dtype) {}
  /// Of one vector of numbers; `width` divides its size.
  template <class T>
    requires(std::is_const_v<Byte> || !std::is_const_v<T>)
  BasicRows(std::span<T> numbers, std::size_t width)
      : BasicRows(dtype_for<std::remove_const_t<T>>, width == 0 ? 0 : numbers.size() / width, width,
                  reinterpret_cast<Byte*>(numbers.data())) {}
  template <class Other>
    requires(std::is_const_v<Byte> && std::is_same_v<Other, std::byte>)
  BasicRows(const BasicRows<Other>& rows)
      : BasicRows(rows.dtype(), rows.rows(), rows.width(), rows.data()) {}

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t width() const { return width_; }  ///< numbers of a row
  [[nodiscard]] Byte* data() const { return data_; }
  [[nodiscard]] std::size_t row_bytes() const { return width_ * size_of(dtype_); }
  [[nodiscard]] std::size_t bytes() const { return rows_ * row_bytes(); }

  template <class T>
  [[nodiscard]] auto as() const {
    using Number = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    if (dtype_ != dtype_for<std::remove_const_t<T>>) detail::raise_dtype(dtype_for<std::remove_const_t<T>>, dtype_);
    return std::span<Number>(reinterpret_cast<Number*>(data_), rows_ * width_);
  }
  [[nodiscard]] BasicRows slice(std::size_t first, std::size_t count) const {
    return {dtype_, count, width_, data_ + first * row_bytes()};
  }
  [[nodiscard]] BasicRows row(std::size_t index) const { return slice(index, 1); }

 private:
  Byte* data_ = nullptr;
  std::size_t rows_ = 0, width_ = 0;
  DType dtype_ = DType::kFloat32;
};

using Rows = BasicRows<std::byte>;
using ConstRows = BasicRows<const std::byte>;

/// Rows that own their memory, zeros at first.
class OwnedRows {
 public:
  OwnedRows() = default;
  OwnedRows(const Space& space, std::size_t rows)
      : dtype_(dtype_of(space)), rows_(rows), width_(elements_of(space)), bytes_(rows * width_ * size_of(dtype_)) {}

  [[nodiscard]] Rows view() { return {dtype_, rows_, width_, bytes_.data()}; }
  [[nodiscard]] ConstRows view() const { return {dtype_, rows_, width_, bytes_.data()}; }
  template <class T> [[nodiscard]] auto as() { return view().template as<T>(); }
  template <class T> [[nodiscard]] auto as() const { return view().template as<T>(); }

 private:
  DType dtype_ = DType::kFloat32;
  std::size_t rows_ = 0, width_ = 0;
  std::vector<std::byte> bytes_;  // from operator new: aligned for every number
};

}  // namespace rl

// A batch of samples: named columns of numbers, as many rows in each, in one piece of memory, so that it is one object
// in the store and is written where it will be read.
//
//   SampleLayout   where each column is; no memory
//   SampleView     a layout and somebody's memory, to read
//   OwnedSamples   a layout and memory of its own
//
// Rows are samples. Plain values; any thread as long as nobody writes.
//
// Invariants
//   SMP-1  Every column begins at a multiple of kColumnAlignment bytes from the start of the memory.
//   SMP-2  An unknown name is an InvalidArgumentError that lists the columns there are. No name is there twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/rl/spaces/dtype.h"
#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"

namespace rl {

inline constexpr std::size_t kColumnAlignment = 64;

/// Numbers of a type, `width` in each row.
struct Column {
  std::string name;
  DType dtype = DType::kFloat32;
  std::size_t width = 1;
  friend bool operator==(const Column&, const Column&) = default;
};
/// One element of a space in each row.
[[nodiscard]] Column column_of(std::string name, const Space& space);
/// The column of what an environment allowed, `width` bytes a row, as BatchEnv::action_mask has it. Only batches of
/// environments that mask actions have it.
inline constexpr const char* kMaskColumn = "mask";
[[nodiscard]] inline Column mask_column(std::size_t width) {
  return {.name = kMaskColumn, .dtype = DType::kUint8, .width = width};
}

class SampleLayout {
 public:
  SampleLayout() = default;
  SampleLayout(std::vector<Column> columns, std::size_t rows);

  [[nodiscard]] std::span<const Column> columns() const { return columns_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != columns_.size(); }
  /// `memory`: bytes() of them.
  [[nodiscard]] Rows column(std::string_view name, std::byte* memory) const;
  [[nodiscard]] ConstRows column(std::string_view name, const std::byte* memory) const;

 private:
  [[nodiscard]] std::size_t find(std::string_view name) const;
  [[nodiscard]] std::size_t index_of(std::string_view name) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> offsets_;
  std::size_t rows_ = 0, bytes_ = 0;
};

/// The memory outlives it.
struct SampleView {
  SampleLayout layout;
  const std::byte* memory = nullptr;

  [[nodiscard]] std::size_t rows() const { return layout.rows(); }
  [[nodiscard]] bool has(std::string_view name) const { return layout.has(name); }
  [[nodiscard]] ConstRows column(std::string_view name) const { return layout.column(name, memory); }
};

class OwnedSamples {
 public:
  OwnedSamples() = default;
  /// Zeros.
  OwnedSamples(std::vector<Column> columns, std::size_t rows);

  [[nodiscard]] const SampleLayout& layout() const { return layout_; }
  [[nodiscard]] std::size_t rows() const { return layout_.rows(); }
  [[nodiscard]] std::byte* memory() { return memory_.get(); }
  [[nodiscard]] Rows column(std::string_view name) { return layout_.column(name, memory_.get()); }
  [[nodiscard]] SampleView view() const { return {layout_, memory_.get()}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  SampleLayout layout_;
  std::unique_ptr<std::byte[], Free> memory_;
};

/// One behind the other; all have the columns of the first. InvalidArgumentError for others, or none at all.
[[nodiscard]] OwnedSamples concatenate(std::span<const SampleView> parts);

/// to's row i becomes from's row rows[i]. Both have the same type and width.
void gather(ConstRows from, std::span<const std::uint32_t> rows, Rows to);
/// The same of all columns. `layout`: from's columns, and as many rows as `rows` has.
void gather(const SampleView& from, std::span<const std::uint32_t> rows, const SampleLayout& layout,
            std::byte* memory);

}  // namespace rl

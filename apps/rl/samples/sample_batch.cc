#include "apps/rl/samples/sample_batch.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rl {
namespace {

constexpr std::align_val_t kAligned{kColumnAlignment};
constexpr std::size_t kMostBytes = std::size_t{1} << 60;

// The size of a row is known to the compiler: a move instead of a call.
template <std::size_t bytes>
void gather_fixed(const std::byte* from, std::span<const std::uint32_t> rows, std::byte* to) {
  for (std::size_t i = 0; i < rows.size(); ++i) std::memcpy(to + i * bytes, from + rows[i] * bytes, bytes);
}

}  // namespace

Column column_of(std::string name, const Space& space) {
  return {.name = std::move(name), .dtype = dtype_of(space), .width = elements_of(space)};
}

SampleLayout::SampleLayout(std::vector<Column> columns, std::size_t rows)
    : columns_(std::move(columns)), rows_(rows) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (find(columns_[i].name) != i)
      troupe::InvalidArgumentError(fmt::format("a batch with two columns '{}'", columns_[i].name)).raise();
    offsets_.push_back(bytes_);
    std::size_t size = 0, end = 0;
    if (__builtin_mul_overflow(rows, columns_[i].width * size_of(columns_[i].dtype), &size) ||
        __builtin_add_overflow(bytes_, size, &end) || end > kMostBytes)
      troupe::InvalidArgumentError(
          fmt::format("a batch of {} rows of '{}' is larger than memory can be", rows, columns_[i].name))
          .raise();
    bytes_ += (size + kColumnAlignment - 1) / kColumnAlignment * kColumnAlignment;
  }
}

std::size_t SampleLayout::find(std::string_view name) const {
  const auto at = std::find_if(columns_.begin(), columns_.end(), [&](const Column& c) { return c.name == name; });
  return static_cast<std::size_t>(at - columns_.begin());
}

std::size_t SampleLayout::index_of(std::string_view name) const {
  const std::size_t index = find(name);
  if (index == columns_.size()) {
    std::vector<std::string_view> names;
    for (const Column& column : columns_) names.push_back(column.name);
    troupe::InvalidArgumentError(fmt::format("no column '{}' in a batch of {}", name, fmt::join(names, ", "))).raise();
  }
  return index;
}

Rows SampleLayout::column(std::string_view name, std::byte* memory) const {
  const std::size_t i = index_of(name);
  return {columns_[i].dtype, rows_, columns_[i].width, memory + offsets_[i]};
}

ConstRows SampleLayout::column(std::string_view name, const std::byte* memory) const {
  const std::size_t i = index_of(name);
  return {columns_[i].dtype, rows_, columns_[i].width, memory + offsets_[i]};
}

void OwnedSamples::Free::operator()(std::byte* memory) const { ::operator delete[](memory, kAligned); }

OwnedSamples::OwnedSamples(std::vector<Column> columns, std::size_t rows) : layout_(std::move(columns), rows) {
  memory_.reset(static_cast<std::byte*>(::operator new[](layout_.bytes(), kAligned)));
  std::memset(memory_.get(), 0, layout_.bytes());
}

OwnedSamples concatenate(std::span<const SampleView> parts) {
  if (parts.empty()) troupe::InvalidArgumentError("no batches").raise();
  const std::span<const Column> columns = parts.front().layout.columns();
  std::size_t rows = 0;
  for (const SampleView& part : parts) {
    if (!std::ranges::equal(part.layout.columns(), columns))
      troupe::InvalidArgumentError("batches of different columns").raise();
    rows += part.rows();
  }
  OwnedSamples out({columns.begin(), columns.end()}, rows);
  for (const Column& column : columns) {
    std::byte* to = out.column(column.name).data();
    for (const SampleView& part : parts) {
      const ConstRows from = part.column(column.name);
      std::memcpy(to, from.data(), from.bytes());
      to += from.bytes();
    }
  }
  return out;
}

void gather(ConstRows from, std::span<const std::uint32_t> rows, Rows to) {
  const std::size_t bytes = from.row_bytes();
  switch (bytes) {
    case 4: return gather_fixed<4>(from.data(), rows, to.data());
    case 8: return gather_fixed<8>(from.data(), rows, to.data());
    case 16: return gather_fixed<16>(from.data(), rows, to.data());
    default:
      for (std::size_t i = 0; i < rows.size(); ++i)
        std::memcpy(to.data() + i * bytes, from.data() + rows[i] * bytes, bytes);
  }
}

void gather(const SampleView& from, std::span<const std::uint32_t> rows, const SampleLayout& layout,
            std::byte* memory) {
  for (const Column& column : layout.columns())
    gather(from.column(column.name), rows, layout.column(column.name, memory));
}

}  // namespace rl

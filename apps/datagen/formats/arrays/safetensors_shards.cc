#include "apps/datagen/formats/arrays/safetensors_shards.h"

#include <algorithm>
#include <set>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/datagen/formats/shard_path.h"

namespace datagen {
namespace {

constexpr std::size_t kSafetensorsHeaderMax = 100'000'000;
constexpr const char* kSampleEnds = "sample_ends";

std::string_view safetensors_type(Type type) {
  switch (type) {
    case Type::kBool: return "BOOL";
    case Type::kInt32: return "I32";
    case Type::kInt64: return "I64";
    case Type::kFloat32: return "F32";
    case Type::kFloat64: return "F64";
    default: return "U8";
  }
}

struct GrowingArray {
  std::string name;
  Type type = Type::kUInt8;
  std::vector<std::size_t> shape = {};  // without the rows
  std::vector<std::byte> bytes = {};

  [[nodiscard]] std::size_t width() const { return size_of(type); }
  void add(std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); }
  template <class T> void add_one(T number) { add(std::as_bytes(std::span(&number, 1))); }
};

/// The arrays of one column.
struct ColumnArrays {
  GrowingArray values;
  std::vector<GrowingArray> more = {};  // offsets of text, then which rows have values

  explicit ColumnArrays(const Field& field)
      : values{.name = field.name, .type = size_of(field.type) == 0 ? Type::kUInt8 : field.type, .shape = field.shape} {
    if (size_of(field.type) == 0) {
      more.push_back({.name = field.name + ".offsets", .type = Type::kInt64});
      more.back().add_one(std::int64_t{0});
    }
    if (field.nullable) more.push_back({.name = field.name + ".valid"});
  }

  void append(const Column& column) {
    const auto before = static_cast<std::int64_t>(values.bytes.size());
    values.add(column.data());
    for (const std::int64_t offset : column.offsets().empty() ? column.offsets() : column.offsets().subspan(1))
      more.front().add_one(before + offset);
    if (!column.field().nullable) return;
    if (column.valid().empty()) more.back().bytes.insert(more.back().bytes.end(), column.rows(), std::byte{1});
    else more.back().add(std::as_bytes(column.valid()));
  }
};

class SafetensorsWriter final : public ShardWriter {
 public:
  SafetensorsWriter(std::shared_ptr<const Schema> schema, ByteSink& sink) : schema_(std::move(schema)), sink_(sink) {
    for (const Field& field : schema_->fields) columns_.emplace_back(field);
  }

  void append(const Table& table) override {
    for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i].append(table.column(i));
    for (const std::uint64_t end : table.sample_ends()) ends_.add_one(static_cast<std::int64_t>(rows_ + end));
    rows_ += table.rows();
  }

  void finish() override {
    std::vector<const GrowingArray*> arrays{&ends_};
    for (const ColumnArrays& column : columns_) {
      arrays.push_back(&column.values);
      for (const GrowingArray& array : column.more) arrays.push_back(&array);
    }
    std::ranges::sort(arrays, {}, [](const GrowingArray* array) {  // SFT-1
      return std::pair(-static_cast<int>(array->width()), array->name);
    });
    const std::string header = header_of_arrays(arrays);
    const std::uint64_t size = header.size();
    sink_.write(std::as_bytes(std::span(&size, 1)));
    sink_.write(std::as_bytes(std::span(header)));
    for (const GrowingArray* array : arrays) sink_.write(array->bytes);
  }

 private:
  [[nodiscard]] std::string header_of_arrays(std::span<const GrowingArray* const> arrays) const {
    boost::json::object words, header;
    for (const auto& [key, value] : schema_->metadata) words[key] = value;
    if (!words.empty()) header["__metadata__"] = std::move(words);
    std::size_t at = 0;
    for (const GrowingArray* array : arrays) {
      std::size_t of_row = array->width();
      boost::json::array shape{0};
      for (const std::size_t axis : array->shape) {
        shape.push_back(axis);
        of_row *= axis;
      }
      shape[0] = array->bytes.size() / of_row;
      header[array->name] = boost::json::object{{"dtype", safetensors_type(array->type)},
                                                {"shape", std::move(shape)},
                                                {"data_offsets", {at, at + array->bytes.size()}}};
      at += array->bytes.size();
    }
    std::string text = boost::json::serialize(header);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    if (text.size() > kSafetensorsHeaderMax)  // SFT-2
      troupe::InvalidArgumentError(fmt::format("a safetensors header of {} bytes: fewer columns, or less metadata",
                                               text.size()))
          .raise();
    return text;
  }

  std::shared_ptr<const Schema> schema_;
  ByteSink& sink_;
  std::vector<ColumnArrays> columns_;
  GrowingArray ends_{.name = kSampleEnds, .type = Type::kInt64};
  std::uint64_t rows_ = 0;
};

class SafetensorsOptions final : public FormatOptions {
 public:
  std::vector<apps::Setting> settings() override { return {}; }
  std::string shard_name(const ShardInfo& shard) const override { return shard_path(shard, "part", "safetensors"); }

  troupe::Status check(const Schema& schema) const override {
    if (troupe::Status status = check_schema(schema); !status.ok()) return status;
    std::set<std::string> names{kSampleEnds, "__metadata__"};
    for (const Field& field : schema.fields) {
      const ColumnArrays arrays(field);
      bool is_new = names.insert(arrays.values.name).second;
      for (const GrowingArray& array : arrays.more) is_new &= names.insert(array.name).second;
      if (!is_new)
        return troupe::InvalidArgumentError(
            fmt::format("safetensors has an array of the name of column '{}' already", field.name));
    }
    return {};
  }

  troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema> schema, const ShardInfo&,
                                                    ByteSink& sink) override {
    return std::unique_ptr<ShardWriter>(std::make_unique<SafetensorsWriter>(std::move(schema), sink));
  }
};

}  // namespace

FormatKind safetensors_format() {
  return {.name = "safetensors",
          .help = "an array a column",
          .options = [] { return std::make_unique<SafetensorsOptions>(); }};
}

}  // namespace datagen

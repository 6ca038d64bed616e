#include "apps/datagen/formats/parquet/arrow/columns.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <arrow/extension/fixed_shape_tensor.h>
#include <fmt/format.h>

namespace datagen {
namespace {

std::shared_ptr<arrow::DataType> arrow_type(Type type) {
  switch (type) {
    case Type::kBool: return arrow::boolean();
    case Type::kUInt8: return arrow::uint8();
    case Type::kInt32: return arrow::int32();
    case Type::kInt64: return arrow::int64();
    case Type::kFloat32: return arrow::float32();
    case Type::kFloat64: return arrow::float64();
    case Type::kString: return arrow::large_utf8();
    case Type::kBytes: return arrow::large_binary();
  }
  return nullptr;
}

/// Bits of bytes that are zero or not.
std::shared_ptr<arrow::Buffer> bits_of(const std::uint8_t* bytes, std::size_t count) {
  std::shared_ptr<arrow::Buffer> out =
      arrow::AllocateBuffer(static_cast<std::int64_t>((count + 7) / 8)).ValueOrDie();
  std::uint8_t* const bits = out->mutable_data();
  for (std::size_t at = 0; at < count; at += 8) {
    unsigned byte = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(8, count - at); ++i)
      byte |= static_cast<unsigned>(bytes[at + i] != 0) << i;
    bits[at / 8] = static_cast<std::uint8_t>(byte);
  }
  return out;
}

std::shared_ptr<arrow::Buffer> looked_at(const void* memory, std::size_t bytes) {
  return std::make_shared<arrow::Buffer>(static_cast<const std::uint8_t*>(memory), static_cast<std::int64_t>(bytes));
}

std::shared_ptr<arrow::Array> array_of(const Column& column, const std::shared_ptr<arrow::DataType>& type) {
  const Field& field = column.field();
  const auto rows = static_cast<std::int64_t>(column.rows());
  std::shared_ptr<arrow::Buffer> valid;
  if (!column.valid().empty()) valid = bits_of(column.valid().data(), column.rows());
  const std::int64_t nulls =
      column.valid().empty() ? 0 : std::count(column.valid().begin(), column.valid().end(), std::uint8_t{0});
  const auto bytes = column.data();
  if (size_of(field.type) == 0)
    return arrow::MakeArray(arrow::ArrayData::Make(
        type, rows, {valid, looked_at(column.offsets().data(), column.offsets().size_bytes()),
                     looked_at(bytes.data(), bytes.size())},
        nulls));
  const auto numbers = field.type == Type::kBool
                           ? bits_of(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size())
                           : looked_at(bytes.data(), bytes.size());
  if (field.shape.empty()) return arrow::MakeArray(arrow::ArrayData::Make(type, rows, {valid, numbers}, nulls));
  const auto elements = arrow::ArrayData::Make(
      arrow_type(field.type), rows * static_cast<std::int64_t>(field.elements()), {nullptr, numbers}, 0);
  return arrow::MakeArray(arrow::ArrayData::Make(type, rows, {valid}, {elements}, nulls));
}

[[noreturn]] void refuse(const arrow::Field& field) {
  troupe::SerializationError(
      fmt::format("column '{}' is of Arrow's type {}, which tables have not", field.name(), field.type()->ToString()))
      .raise();
}

Type type_from(const arrow::Field& field, const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL: return Type::kBool;
    case arrow::Type::UINT8: return Type::kUInt8;
    case arrow::Type::INT32: return Type::kInt32;
    case arrow::Type::INT64: return Type::kInt64;
    case arrow::Type::FLOAT: return Type::kFloat32;
    case arrow::Type::DOUBLE: return Type::kFloat64;
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING: return Type::kString;
    case arrow::Type::BINARY:
    case arrow::Type::LARGE_BINARY: return Type::kBytes;
    default: refuse(field);
  }
}

/// No overflow of what a row holds.
void add_axis(const arrow::Field& from, std::int64_t axis, Field& field) {
  constexpr std::size_t kMost = std::size_t{1} << 32;
  if (axis < 1 || static_cast<std::size_t>(axis) > kMost / field.elements()) refuse(from);
  field.shape.push_back(static_cast<std::size_t>(axis));
}

Field field_from(const arrow::Field& from) {
  Field field{.name = from.name(), .nullable = from.nullable()};
  const arrow::DataType* type = from.type().get();
  if (type->id() == arrow::Type::EXTENSION) {
    const auto* tensor = dynamic_cast<const arrow::extension::FixedShapeTensorType*>(type);
    if (tensor == nullptr) refuse(from);
    for (const std::int64_t axis : tensor->shape()) add_axis(from, axis, field);
    type = tensor->value_type().get();
  } else {
    for (; type->id() == arrow::Type::FIXED_SIZE_LIST; type = type->field(0)->type().get())
      add_axis(from, static_cast<const arrow::FixedSizeListType&>(*type).list_size(), field);
  }
  field.type = type_from(from, *type);
  return field;
}

void take_texts(const arrow::Array& from, Column& to) {
  const auto append = [&](const auto& texts) {
    for (std::int64_t row = 0; row < texts.length(); ++row)
      to.append(texts.IsNull(row) ? std::string_view() : std::string_view(texts.GetView(row)));
  };
  switch (from.type_id()) {
    case arrow::Type::STRING:
    case arrow::Type::BINARY: return append(static_cast<const arrow::BinaryArray&>(from));
    default: return append(static_cast<const arrow::LargeBinaryArray&>(from));
  }
}

/// What the file's words say of the type and what is there are two things, and both are the file's.
void check_numbers(const arrow::Array& from, const arrow::Array& flat, std::int64_t first, const Field& field) {
  const auto rows = static_cast<std::size_t>(from.length());
  const std::size_t width = field.elements();
  const auto bad = [&](std::string_view why) {
    troupe::SerializationError(fmt::format("column '{}' is damaged: {}", field.name, why)).raise();
  };
  if (flat.type_id() != arrow_type(field.type)->id()) bad("its numbers are of another type");
  if (first > flat.length() || (rows > 0 && width > static_cast<std::size_t>(flat.length() - first) / rows))
    bad("it has too few numbers for its rows");
  if (&flat == &from || flat.null_count() == 0) return;
  for (std::size_t row = 0; row < rows; ++row) {
    if (from.IsNull(static_cast<std::int64_t>(row))) continue;
    const std::int64_t begin = first + static_cast<std::int64_t>(row * width);
    for (std::int64_t i = begin; i < begin + static_cast<std::int64_t>(width); ++i)
      if (flat.IsNull(i)) bad("a number is missing within a row");
  }
}

void take_numbers(const arrow::Array& from, Column& to) {
  const std::size_t size = size_of(to.field().type);
  const std::size_t width = to.field().elements();
  const arrow::Array* flat = &from;
  std::int64_t first = 0;  // its first element in `flat`
  while (flat->type_id() == arrow::Type::FIXED_SIZE_LIST) {
    const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*flat);
    first = lists.value_offset(first);
    flat = lists.values().get();
  }
  const auto rows = static_cast<std::size_t>(from.length());
  check_numbers(from, *flat, first, to.field());
  to.resize(rows);
  const auto count = static_cast<std::int64_t>(rows * width);
  if (count == 0) return;
  if (to.field().type == Type::kBool) {
    const auto& bits = static_cast<const arrow::BooleanArray&>(*flat);
    const auto values = to.values<bool>();
    for (std::int64_t i = 0; i < count; ++i) values[static_cast<std::size_t>(i)] = bits.Value(first + i);
    return;
  }
  const arrow::ArrayData& data = *flat->data();
  const std::size_t begin = static_cast<std::size_t>(data.offset + first) * size;
  std::memcpy(const_cast<std::byte*>(to.data().data()), data.buffers[1]->data() + begin,
              static_cast<std::size_t>(count) * size);
}

}  // namespace

std::shared_ptr<arrow::Field> arrow_field(const Field& field) {
  std::shared_ptr<arrow::DataType> type = arrow_type(field.type);
  if (field.shape.size() == 1) {
    type = arrow::fixed_size_list(arrow::field("element", type, false), static_cast<std::int32_t>(field.shape[0]));
  } else if (field.shape.size() > 1) {
    type = arrow::extension::fixed_shape_tensor(type, {field.shape.begin(), field.shape.end()});
  }
  return arrow::field(field.name, std::move(type), field.nullable);
}

std::shared_ptr<arrow::Schema> arrow_schema(const Schema& schema) {
  arrow::FieldVector fields;
  for (const Field& field : schema.fields) fields.push_back(arrow_field(field));
  std::vector<std::string> keys, values;
  for (const auto& [key, value] : schema.metadata) {
    keys.push_back(key);
    values.push_back(value);
  }
  return arrow::schema(std::move(fields), arrow::key_value_metadata(std::move(keys), std::move(values)));
}

std::shared_ptr<arrow::RecordBatch> to_arrow(const Table& table, const std::shared_ptr<arrow::Schema>& schema) {
  arrow::ArrayVector arrays;
  for (int i = 0; i < schema->num_fields(); ++i)
    arrays.push_back(array_of(table.column(static_cast<std::size_t>(i)), schema->field(i)->type()));
  return arrow::RecordBatch::Make(schema, static_cast<std::int64_t>(table.rows()), std::move(arrays));
}

Schema from_arrow(const arrow::Schema& schema) {
  Schema out;
  for (const auto& field : schema.fields()) out.fields.push_back(field_from(*field));
  if (const auto& words = schema.metadata(); words != nullptr)
    for (std::int64_t i = 0; i < words->size(); ++i) out.metadata[words->key(i)] = words->value(i);
  return out;
}

void from_arrow(const arrow::RecordBatch& batch, Table& table) {
  table.clear();
  table.resize(static_cast<std::size_t>(batch.num_rows()));
  for (int i = 0; i < batch.num_columns(); ++i) {
    Column& column = table.column(static_cast<std::size_t>(i));
    std::shared_ptr<arrow::Array> array = batch.column(i);
    if (array->type_id() == arrow::Type::EXTENSION)
      array = static_cast<const arrow::ExtensionArray&>(*array).storage();
    if (size_of(column.field().type) == 0) take_texts(*array, column);
    else take_numbers(*array, column);
    if (array->null_count() == 0) continue;
    for (std::int64_t row = 0; row < array->length(); ++row)
      if (array->IsNull(row)) column.set_null(static_cast<std::size_t>(row));
  }
  table.rows_are_samples();
}

}  // namespace datagen

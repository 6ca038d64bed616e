#include "apps/datagen/table/schema.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

namespace datagen {
namespace {

struct TypeRow {
  Type type;
  std::string_view name;
  std::size_t size;
};
constexpr std::array<TypeRow, 8> kTypes{{{Type::kBool, "bool", 1},
                                         {Type::kUInt8, "uint8", 1},
                                         {Type::kInt32, "int32", 4},
                                         {Type::kInt64, "int64", 8},
                                         {Type::kFloat32, "float32", 4},
                                         {Type::kFloat64, "float64", 8},
                                         {Type::kString, "string", 0},
                                         {Type::kBytes, "bytes", 0}}};

const TypeRow& row_of(Type type) { return kTypes[static_cast<std::size_t>(type)]; }

}  // namespace

std::size_t size_of(Type type) { return row_of(type).size; }
std::string_view name_of(Type type) { return row_of(type).name; }

troupe::Result<Type> type_of(std::string_view name) {
  for (const TypeRow& row : kTypes)
    if (row.name == name) return row.type;
  return troupe::InvalidArgumentError(fmt::format("no type of a column is called '{}'", name));
}

std::size_t Field::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t Schema::find(std::string_view name) const {
  return static_cast<std::size_t>(
      std::find_if(fields.begin(), fields.end(), [&](const Field& field) { return field.name == name; }) -
      fields.begin());
}

troupe::Status check_schema(const Schema& schema) {
  std::set<std::string_view> names;
  if (schema.fields.empty()) return troupe::InvalidArgumentError("a data set without a column");
  for (const Field& field : schema.fields) {
    if (field.name.empty()) return troupe::InvalidArgumentError("a column without a name");
    if (!names.insert(field.name).second)
      return troupe::InvalidArgumentError(fmt::format("two columns are called '{}'", field.name));
    if (std::find(field.shape.begin(), field.shape.end(), 0u) != field.shape.end())
      return troupe::InvalidArgumentError(fmt::format("the shape of column '{}' has a zero in it", field.name));
    if (size_of(field.type) == 0 && !field.shape.empty())
      return troupe::InvalidArgumentError(fmt::format("column '{}' is {} and has a shape", field.name,
                                                      name_of(field.type)));
    const bool is_picture =
        field.type == Type::kUInt8 &&
        (field.shape.size() == 2 || (field.shape.size() == 3 && (field.shape[2] == 1 || field.shape[2] == 3)));
    if (field.content == Content::kImage && !is_picture)
      return troupe::InvalidArgumentError(
          fmt::format("column '{}' is a picture: uint8 [height][width] or [height][width][3]", field.name));
  }
  return {};
}

}  // namespace datagen

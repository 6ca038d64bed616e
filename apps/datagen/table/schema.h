// Schema: the columns of a data set, in the order in which formats write them.
//
//   Field   a name, a type, and the shape of one value: {} is one number, {84, 84, 3} a picture
//
// Plain values; any thread.
//
// SCM-1  Names are not empty and differ from each other; a shape has no zero in it, and text and bytes have none.
//        check_schema says what is wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/result.h>

namespace datagen {

enum class Type : std::uint8_t { kBool, kUInt8, kInt32, kInt64, kFloat32, kFloat64, kString, kBytes };

/// Bytes of one number; 0 for text and bytes, whose length is each value's own. A bool is a byte, 0 or 1.
[[nodiscard]] std::size_t size_of(Type type);
/// "float32", ...: as NumPy spells it; "string", "bytes".
[[nodiscard]] std::string_view name_of(Type type);
/// InvalidArgumentError for another name.
[[nodiscard]] troupe::Result<Type> type_of(std::string_view name);

/// What a value is, for formats in which it matters: a member of a tar is named and encoded by it.
enum class Content : std::uint8_t {
  kPlain,   ///< numbers or text
  kImage,   ///< uint8 [height][width] or [height][width][3]: PNG where pictures are files
  kClass,   ///< the number of a class
  kJson,    ///< text that is JSON
};

struct Field {
  std::string name;
  Type type = Type::kFloat32;
  std::vector<std::size_t> shape = {};
  bool nullable = false;  ///< a row may have no value
  Content content = Content::kPlain;
  friend bool operator==(const Field&, const Field&) = default;

  /// Numbers in one value: the product of the shape.
  [[nodiscard]] std::size_t elements() const;
};

struct Schema {
  std::vector<Field> fields;
  /// Words about the whole: formats that have a place for them keep them.
  std::map<std::string, std::string> metadata = {};
  friend bool operator==(const Schema&, const Schema&) = default;

  /// Its index, or fields.size().
  [[nodiscard]] std::size_t find(std::string_view name) const;
};

/// InvalidArgumentError (SCM-1).
[[nodiscard]] troupe::Status check_schema(const Schema& schema);

}  // namespace datagen

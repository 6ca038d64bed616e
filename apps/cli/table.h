// What a read verb prints: rows with named fields, as a table for people or as JSON for programs.
//
// Thread rule: plain data.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace troupe::cli {

/// A field: text, a number, a truth value, or a small map.
using Field = std::variant<std::string, std::int64_t, double, bool, std::map<std::string, double>,
                           std::map<std::string, std::string>>;

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Field>> rows;
};

/// A JSON array of objects, one a line; ends with a newline.
std::string to_json(const Table& table);
/// One JSON object.
std::string to_json(const std::vector<std::pair<std::string, Field>>& fields);
inline constexpr std::size_t kIdWidth = 12;
/// Columns under a header line. Of ids their last characters are shown, because their first ones say which process made
/// them and are mostly the same: `id_width` of them, or as many more as tell the ids of a column apart (0: in full).
std::string to_text(const Table& table, std::size_t id_width = kIdWidth);

}  // namespace troupe::cli

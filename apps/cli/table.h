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
using Field = std::variant<std::string, std::int64_t, double, bool, std::map<std::string, double>, std::map<std::string, std::string>>;

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<Field>> rows;
};

/// A JSON array of objects, one a line; ends with a newline.
std::string to_json(const Table& table);
/// One JSON object.
std::string to_json(const std::vector<std::pair<std::string, Field>>& fields);
/// Columns under a header line, long ids shortened to `id_width` characters (0: in full).
std::string to_text(const Table& table, std::size_t id_width = 12);

}  // namespace troupe::cli

#include "apps/cli/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace troupe::cli {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char code[8];
          std::snprintf(code, sizeof(code), "\\u%04x", unsigned(static_cast<unsigned char>(c)));
          out += code;
        } else {
          out += c;
        }
    }
  }
  return out + '"';
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof(text), value == std::floor(value) && std::fabs(value) < 1e15 ? "%.0f" : "%.10g", value);
  return text;
}

struct ToJson {
  std::string operator()(const std::string& v) const { return quoted(v); }
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return number_text(v); }
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  template <class V> std::string operator()(const std::map<std::string, V>& map) const {
    std::string out;
    for (const auto& [key, value] : map) out += (out.empty() ? "" : ", ") + quoted(key) + ": " + (*this)(value);
    return "{" + out + "}";
  }
};

struct ToText {
  std::string operator()(const std::string& v) const { return v; }
  std::string operator()(std::int64_t v) const { return std::to_string(v); }
  std::string operator()(double v) const { return number_text(v); }
  std::string operator()(bool v) const { return v ? "yes" : "no"; }
  template <class V> std::string operator()(const std::map<std::string, V>& map) const {
    std::string out;
    for (const auto& [key, value] : map) out += (out.empty() ? "" : " ") + key + "=" + (*this)(value);
    return out;
  }
};

bool is_id(const std::string& column) { return column == "id" || column.ends_with("_id"); }

std::string ending(const std::string& text, std::size_t width) {
  return text.size() > width ? text.substr(text.size() - width) : text;
}

/// How many characters at their ends tell these ids apart; `least` at least.
std::size_t telling_width(const std::set<std::string>& ids, std::size_t least) {
  std::size_t longest = least;
  for (const std::string& id : ids) longest = std::max(longest, id.size());
  for (std::size_t width = least; width < longest; ++width) {
    std::set<std::string> ends;
    for (const std::string& id : ids) ends.insert(ending(id, width));
    if (ends.size() == ids.size()) return width;
  }
  return longest;
}

void shorten_ids(const Table& table, std::size_t id_width, std::vector<std::vector<std::string>>& cells) {
  for (std::size_t c = 0; id_width > 0 && c < table.columns.size(); ++c) {
    if (!is_id(table.columns[c])) continue;
    std::set<std::string> ids;
    for (std::size_t r = 1; r < cells.size(); ++r) ids.insert(cells[r][c]);
    const std::size_t width = telling_width(ids, id_width);
    for (std::size_t r = 1; r < cells.size(); ++r) cells[r][c] = ending(cells[r][c], width);
  }
}

}  // namespace

std::string to_json(const std::vector<std::pair<std::string, Field>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields)
    out += (out.empty() ? "" : ", ") + quoted(name) + ": " + std::visit(ToJson{}, value);
  return "{" + out + "}";
}

std::string to_json(const Table& table) {
  std::string out = "[";
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    std::vector<std::pair<std::string, Field>> fields;
    for (std::size_t c = 0; c < table.columns.size(); ++c) fields.emplace_back(table.columns[c], table.rows[r][c]);
    out += (r ? ",\n " : "\n ") + to_json(fields);
  }
  return out + (table.rows.empty() ? "]\n" : "\n]\n");
}

std::string to_text(const Table& table, std::size_t id_width) {
  std::vector<std::vector<std::string>> cells{table.columns};
  for (auto& name : cells[0])
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c == '_' ? ' ' : char(std::toupper(c)); });
  for (const auto& row : table.rows) {
    auto& line = cells.emplace_back();
    for (const Field& field : row) line.push_back(std::visit(ToText{}, field));
  }
  shorten_ids(table, id_width, cells);
  std::vector<std::size_t> widths(table.columns.size(), 0);
  for (const auto& line : cells)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  std::string out;
  for (const auto& line : cells) {
    for (std::size_t c = 0; c < line.size(); ++c)
      out += c + 1 < line.size() ? line[c] + std::string(widths[c] - line[c].size() + 2, ' ') : line[c];
    out += '\n';
  }
  return out;
}

}  // namespace troupe::cli

#include "apps/datagen/formats/text/json_text.h"

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>

#include <boost/json.hpp>
#include <fmt/format.h>

namespace datagen {
namespace {

[[noreturn]] void refuse_text(const Column& column, std::size_t row, std::string_view why) {
  troupe::InvalidArgumentError(fmt::format("row {} of column '{}' {}", row, column.field().name, why)).raise();
}

template <std::floating_point T> void append_number(std::string& out, T number) {
  if (std::isnan(number)) {
    out += "NaN";
  } else if (std::isinf(number)) {
    out += number < 0 ? "-Infinity" : "Infinity";
  } else {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, number).ptr;
    const std::string_view view(text, static_cast<std::size_t>(end - text));
    out += view;
    if (view.find_first_of(".e") == std::string_view::npos) out += ".0";  // so that a reader makes a float of it
  }
}

template <std::integral T> void append_number(std::string& out, T number) {
  char text[24];
  out.append(text, std::to_chars(text, text + sizeof text, number).ptr);
}

void append_number(std::string& out, bool value) { out += value ? "true" : "false"; }

/// Its numbers from `at` on, nested from `axis` on.
template <class T>
std::size_t append_array(std::string& out, std::span<const T> numbers, std::span<const std::size_t> shape,
                         std::size_t at) {
  if (shape.empty()) {
    append_number(out, numbers[at]);
    return at + 1;
  }
  out += '[';
  for (std::size_t i = 0; i < shape[0]; ++i) {
    if (i != 0) out += ',';
    at = append_array(out, numbers, shape.subspan(1), at);
  }
  out += ']';
  return at;
}

template <class T> void append_row(std::string& out, const Column& column, std::size_t row) {
  const std::size_t width = column.field().elements();
  append_array<T>(out, column.values<T>().subspan(row * width, width), column.field().shape, 0);
}

void append_base64(std::string& out, std::string_view bytes) {
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out += '"';
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 3; ++i)
      word = word << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u);
    for (std::size_t i = 0; i < 4; ++i)
      out += at + i <= bytes.size() ? kLetters[word >> (18 - 6 * i) & 63] : '=';
  }
  out += '"';
}

/// Line ends stand only between JSON's words: in texts they are escaped.
void append_checked_json(std::string& out, const Column& column, std::size_t row) {
  const std::string_view text = column.text(row);
  boost::json::error_code error;
  static_cast<void>(boost::json::parse(text, error));
  if (error) refuse_text(column, row, "is no JSON: " + error.message());
  for (const char letter : text) out += letter == '\n' || letter == '\r' ? ' ' : letter;
}

}  // namespace

bool is_utf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
      ++at;
      continue;
    }
    const std::size_t more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
    if (lead < 0xc2 || lead > 0xf4 || at + more >= text.size()) return false;
    std::uint32_t point = lead & (0x3fu >> more);
    for (std::size_t i = 1; i <= more; ++i) {
      const auto next = static_cast<unsigned char>(text[at + i]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3f);
    }
    const std::uint32_t least = more == 1 ? 0x80 : more == 2 ? 0x800 : 0x10000;
    if (point < least || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return false;
    at += more + 1;
  }
  return true;
}

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\') (out += '\\') += letter;
    else if (letter == '\n') out += "\\n";
    else if (code < 0x20) fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    else out += letter;
  }
  out += '"';
}

void append_json(std::string& out, const Column& column, std::size_t row) {
  if (column.is_null(row)) {
    out += "null";
    return;
  }
  switch (column.field().type) {
    case Type::kBool: return append_row<bool>(out, column, row);
    case Type::kUInt8: return append_row<std::uint8_t>(out, column, row);
    case Type::kInt32: return append_row<std::int32_t>(out, column, row);
    case Type::kInt64: return append_row<std::int64_t>(out, column, row);
    case Type::kFloat32: return append_row<float>(out, column, row);
    case Type::kFloat64: return append_row<double>(out, column, row);
    case Type::kBytes: return append_base64(out, column.text(row));
    case Type::kString: break;
  }
  if (column.field().content == Content::kJson) return append_checked_json(out, column, row);
  if (!is_utf8(column.text(row))) refuse_text(column, row, "is no UTF-8; a column of bytes takes such text");
  append_json_text(out, column.text(row));
}

}  // namespace datagen

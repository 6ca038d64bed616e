// Values of columns as JSON text. Pure; any thread.
//
// JTX-1  Numbers read back as what they were, to the bit: the shortest text of a float or a double that does, with a
//        point or an exponent. What is no number is NaN, Infinity, -Infinity, as Python's json writes and reads it.
// JTX-2  Text is UTF-8 (else InvalidArgumentError, thrown, with the column and the row), bytes are Base64, JSON is
//        itself, checked, on one line; a row without a value is null.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "apps/datagen/table/column.h"

namespace datagen {

/// The value of a row, arrays nested as the shape says.
void append_json(std::string& out, const Column& column, std::size_t row);
/// Between quotes, escaped.
void append_json_text(std::string& out, std::string_view text);
/// Whether it is UTF-8: no surrogates, nothing above U+10FFFF, nothing longer than needed.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace datagen

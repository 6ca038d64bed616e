// JSON, read so that every double is the nearest one to its text. Boost's own parser is off by a last bit for one in
// ten of those with all their digits (1.81), so what it reads and writes again is another text: configurations whose
// hash is their name, and bounds of spaces, cannot have that.
//
// PJS-1  parse_json(serialize(value)) is `value`, to the bit.
// PJS-2  A number beyond a double's range is an error: JSON has no infinity to write it again.
// Any thread.
#pragma once

#include <string_view>

#include <boost/json.hpp>

namespace apps {

/// What boost::json::parse says of it, numbers aside.
[[nodiscard]] boost::json::value parse_json(std::string_view text, boost::system::error_code& failed);
/// Throws boost::system::system_error.
[[nodiscard]] boost::json::value parse_json(std::string_view text);

}  // namespace apps

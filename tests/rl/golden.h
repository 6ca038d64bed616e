// Reading recorded cases: the folder, its files by what they contain, and JSON values as vectors and matrices.
//
// The folder is TROUPE_GOLDEN_DIR (its `rl` subfolder, or itself), by default the project's own copy. A file is known
// by its content, never by its name, so other cases of the same format can be tried under any name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

namespace golden {

namespace json = boost::json;

enum class Kind {
  kEnvironment,
  kAutoReset,
  kRandom,
  kGae,
  kVtrace,
  kPpo,
  kDqn,
  kReplay,
  kSac,
  kMinAtar,
  kPictures,
  kStatistics,
  kUpdates,
  kUnknown
};

struct File {
  std::filesystem::path path;
  json::object content;
  Kind kind;
};

/// All JSON files of the folder; throws std::runtime_error for one that cannot be read. Read once.
const std::vector<File>& files();

/// True when the folder is the project's own copy, which holds every kind.
bool is_default_folder();

/// The files of one kind.
std::vector<const File*> files_of(Kind kind);

const json::value& at(const json::value& object, std::string_view key);
double number(const json::value& v);
std::int64_t integer(const json::value& v);
std::string text(const json::value& v);
bool flag(const json::value& v);
/// Any nesting of arrays, row-major. Booleans count as 0 and 1.
std::vector<double> numbers(const json::value& v);
std::vector<std::uint8_t> flags(const json::value& v);
std::vector<float> floats(const json::value& v);

}  // namespace golden

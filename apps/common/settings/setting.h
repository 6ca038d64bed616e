// Settings: the numbers and words of a run that a user may choose, each with a name, a default, a range and a line of
// help. One list of them is behind the flags, the files, the checkpoint and the printed configuration.
//
//   defaults, or those of a checkpoint (--resume) ◀── file (--config) ◀── flags        the right one wins
//
// A Setting points into the structure that it belongs to, which outlives it. One thread at a time.
//
// Invariants
//   SET-1  A value of another type, or outside of the range, is an InvalidArgumentError that names the setting; nothing
//          has changed then.
//   SET-2  An unknown name is an InvalidArgumentError with the nearest one.
//   SET-3  assign_all(to_json(settings)) changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

namespace apps {

struct Setting {
  std::string name;  // "learning_rate"; its flag is --learning-rate
  std::string help;
  /// An optional number that is none is the word "auto".
  std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::optional<double>*, std::string*,
               std::vector<std::size_t>*>
      value;
  double least = -std::numeric_limits<double>::infinity(), most = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices = {};  // of a word; empty: any
  bool program = false;  // a word that names a program to run: what a file says of it is asked first (named_program.h)
};

/// "--learning-rate".
[[nodiscard]] std::string flag_of(const Setting& setting);
[[nodiscard]] boost::json::value value_of(const Setting& setting);
troupe::Status assign(const Setting& setting, const boost::json::value& value);
/// As a user types it: "true", "0.5", "64,64". The path of a program becomes a whole one.
troupe::Status assign_text(const Setting& setting, std::string_view text);

[[nodiscard]] boost::json::object to_json(std::span<const Setting> settings);
troupe::Status assign_all(std::span<const Setting> settings, const boost::json::object& values);

/// A value as a user would type it: 0.001, 64,64, tanh.
[[nodiscard]] std::string text_of(const Setting& setting);
/// "name: value" lines, in the order of the settings: what --config reads.
[[nodiscard]] std::string to_yaml(std::span<const Setting> settings);
/// A mapping of names to scalars and lists. NotFoundError for a file that is not there, InvalidArgumentError with the
/// line for one that is no YAML, or no such mapping.
[[nodiscard]] troupe::Result<boost::json::object> read_yaml(const std::filesystem::path& path);
[[nodiscard]] troupe::Result<boost::json::object> parse_yaml(const std::string& text, const std::string& source);

}  // namespace apps

#include "apps/datagen/formats/minari/minari_json.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <regex>
#include <stdexcept>

#include <boost/json.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "apps/common/precise_json.h"
#include "apps/datagen/formats/text/json_text.h"

namespace datagen {
namespace {

namespace json = boost::json;

constexpr std::size_t kAxesMax = 32, kBoundsMax = std::size_t{1} << 26;

/// A bound of a space. Python's json spells infinities.
std::string bound_text(const json::value& bound, bool is_float32) {
  double number = 0;
  if (const auto* text = bound.if_string())
    number = *text == "-inf" ? -HUGE_VAL : *text == "inf" ? HUGE_VAL : std::nan("");
  else number = bound.to_number<double>();
  if (is_float32) number = static_cast<double>(static_cast<float>(number));  // as NumPy's tolist has it
  if (std::isnan(number)) throw std::invalid_argument("a bound that is no number");
  return std::isinf(number) ? (number < 0 ? "-Infinity" : "Infinity") : fmt::format("{}", number);
}

/// The bounds of all elements (one for all stands for each), nested as the shape says.
std::string bounds_text(const json::array& bounds, bool is_float32, std::span<const std::size_t> shape,
                        std::size_t& next) {
  if (shape.empty()) {
    const std::size_t at = next++;
    return bound_text(bounds.at(bounds.size() == 1 ? 0 : at), is_float32);
  }
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < shape[0]; ++i) parts.push_back(bounds_text(bounds, is_float32, shape.subspan(1), next));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

std::string space_text(const std::string& text) {
  const json::object space = apps::parse_json(text).as_object();
  const json::string& type = space.at("type").as_string();
  if (type == "Discrete")
    return fmt::format(R"({{"type": "Discrete", "dtype": "int64", "start": {}, "n": {}}})",
                       space.contains("start") ? space.at("start").to_number<std::int64_t>() : 0,
                       space.at("n").to_number<std::int64_t>());
  if (type == "MultiDiscrete") {
    const json::array& nvec = space.at("nvec").as_array();
    const json::array start = space.contains("start") ? space.at("start").as_array() : json::array(nvec.size(), 0);
    return fmt::format(R"({{"type": "MultiDiscrete", "dtype": "int64", "nvec": {}, "start": {}}})",
                       json::serialize(nvec), json::serialize(start));
  }
  if (type != "Box") throw std::invalid_argument("a space of the kind " + std::string(type));
  std::vector<std::size_t> shape;
  for (const json::value& axis : space.at("shape").as_array()) shape.push_back(axis.to_number<std::size_t>());
  if (shape.size() > kAxesMax) throw std::invalid_argument("a Box of too many axes");
  std::size_t left = kBoundsMax;  // each is written
  for (const std::size_t axis : shape) {
    if (axis > left) throw std::invalid_argument("a Box of too many numbers");
    left /= std::max<std::size_t>(axis, 1);
  }
  const bool is_float32 = space.at("dtype").as_string() == "float32";
  std::size_t low = 0, high = 0;
  return fmt::format(R"({{"type": "Box", "dtype": "{}", "shape": {}, "low": {}, "high": {}}})",
                     std::string(space.at("dtype").as_string()), json::serialize(space.at("shape")),
                     bounds_text(space.at("low").as_array(), is_float32, shape, low),
                     bounds_text(space.at("high").as_array(), is_float32, shape, high));
}

}  // namespace

std::string minari_dataset_id(std::string name) {
  const auto is_foreign = [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '/'; };
  std::ranges::replace_if(name, is_foreign, '_');
  if (name.empty()) name = "dataset";
  static const std::regex versioned(".*-v[0-9]+");
  return std::regex_match(name, versioned) ? name : name + "-v0";
}

troupe::Result<std::string> minari_metadata(const MinariWords& words) {
  try {
    json::object out{{"dataset_id", words.dataset_id},
                     {"minari_version", kMinariVersion},
                     {"data_format", "hdf5"},
                     {"jpeg_encoding", false},  // the default would take pictures for JPEG files
                     {"total_episodes", words.episodes},
                     {"total_steps", words.steps},
                     {"observation_space", space_text(words.observation_space)},
                     {"action_space", space_text(words.action_space)}};
    // One digit behind the point, of megabytes.
    out["dataset_size"] = std::round(static_cast<double>(words.bytes) / 1e5) / 10;
    if (!words.env_spec.empty()) {
      json::object spec = apps::parse_json(words.env_spec).as_object();
      spec.emplace("additional_wrappers", json::array());  // Gymnasium demands it
      out["env_spec"] = json::serialize(spec);
    }
    if (!words.authors.empty()) out["author"] = json::value_from(words.authors);
    if (!words.emails.empty()) out["author_email"] = json::value_from(words.emails);
    for (const auto& [key, value] : words.more) out.emplace(key, value);
    return json::serialize(out) + "\n";
  } catch (const std::exception& error) {
    return troupe::SerializationError(fmt::format("the words of a Minari data set: {}", error.what()));
  }
}

}  // namespace datagen

#include "apps/common/settings/setting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include "apps/common/input_file.h"
#include "apps/common/nearest_name.h"
#include "apps/common/precise_json.h"

namespace apps {
namespace {

namespace json = boost::json;

constexpr std::string_view kAuto = "auto";
constexpr std::uint64_t kYamlMax = 1 << 20;

troupe::Status wrong(const Setting& setting, std::string_view wanted, const json::value& given) {
  return troupe::InvalidArgumentError(fmt::format("{} is {}, not {}", setting.name, wanted, json::serialize(given)));
}

std::string range_of(const Setting& setting) {
  if (std::isfinite(setting.most)) return fmt::format(" from {:g} to {:g}", setting.least, setting.most);
  return std::isfinite(setting.least) ? fmt::format(" from {:g} on", setting.least) : "";
}

/// Nor is what is infinite: JSON, in which settings are kept, has no place for it.
bool in_range(const Setting& setting, double value) {
  return std::isfinite(value) && value >= setting.least && value <= setting.most;
}

template <class Integer>
troupe::Status assign_to(const Setting& setting, Integer* to, const json::value& value) {
  const std::string wanted = "a whole number" + range_of(setting);
  boost::system::error_code failed;
  const auto number = value.is_number() ? value.to_number<Integer>(failed) : Integer{};
  if (!value.is_number() || failed || !in_range(setting, static_cast<double>(number)))
    return wrong(setting, wanted, value);
  *to = number;
  return {};
}

troupe::Status assign_to(const Setting& setting, bool* to, const json::value& value) {
  if (!value.is_bool()) return wrong(setting, "true or false", value);
  *to = value.as_bool();
  return {};
}

troupe::Status assign_to(const Setting& setting, double* to, const json::value& value) {
  const std::string wanted = "a number" + range_of(setting);
  if (!value.is_number() || !in_range(setting, value.to_number<double>())) return wrong(setting, wanted, value);
  *to = value.to_number<double>();
  return {};
}

troupe::Status assign_to(const Setting& setting, std::optional<double>* to, const json::value& value) {
  if (value.is_string() && value.as_string() == kAuto) return *to = std::nullopt, troupe::Status();
  if (!value.is_number() || !in_range(setting, value.to_number<double>()))
    return wrong(setting, fmt::format("a number{}, or {}", range_of(setting), kAuto), value);
  *to = value.to_number<double>();
  return {};
}

troupe::Status assign_to(const Setting& setting, std::string* to, const json::value& value) {
  if (!value.is_string()) return wrong(setting, "a word", value);
  const std::string word(value.as_string());
  if (!setting.choices.empty() && std::ranges::find(setting.choices, word) == setting.choices.end())
    return wrong(setting, fmt::format("one of {}", fmt::join(setting.choices, ", ")), value);
  *to = word;
  return {};
}

troupe::Status assign_to(const Setting& setting, std::vector<std::size_t>* to, const json::value& value) {
  const std::string wanted = "a list of whole numbers" + range_of(setting);
  if (!value.is_array()) return wrong(setting, wanted, value);
  std::vector<std::size_t> numbers;
  for (const json::value& item : value.as_array()) {
    boost::system::error_code failed;
    const auto number = item.is_number() ? item.to_number<std::size_t>(failed) : 0;
    if (!item.is_number() || failed || !in_range(setting, static_cast<double>(number)))
      return wrong(setting, wanted, value);
    numbers.push_back(number);
  }
  *to = std::move(numbers);
  return {};
}

/// A scalar as its text says: null, true, 3, 0.5, else a word.
json::value scalar(const std::string& text) {
  if (text == "true") return true;
  if (text == "false") return false;
  boost::system::error_code failed;
  json::value number = parse_json(text, failed);
  if (!failed && number.is_number()) return number;
  // JSON knows no "1." nor ".5"; people do.
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!text.empty() && *end == '\0' && std::isfinite(value)) return value;
  return json::value(text);
}

/// Wants a word: what is quoted, or the setting is a word, is not taken for a number.
json::value as_wanted(const Setting& setting, json::value value, const std::string& text) {
  return std::holds_alternative<std::string*>(setting.value) ? json::value(text) : std::move(value);
}

json::value from_yaml(const YAML::Node& node, bool in_list = false) {
  if (node.IsSequence() && !in_list) {  // no lists of lists: by its anchors one may be in itself
    json::array list;
    for (const YAML::Node& item : node) list.push_back(from_yaml(item, true));
    return list;
  }
  if (!node.IsScalar())
    troupe::InvalidArgumentError(fmt::format("line {}: a number, a word or a list of them is wanted",
                                             node.Mark().line + 1))
        .raise();
  const std::string text = node.as<std::string>();
  return node.Tag() == "!" ? json::value(text) : scalar(text);  // "!": quoted
}

}  // namespace

std::string flag_of(const Setting& setting) {
  std::string flag = "--" + setting.name;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

json::value value_of(const Setting& setting) {
  return std::visit(
      []<class T>(T* value) -> json::value {
        if constexpr (std::is_same_v<T, std::vector<std::size_t>>) return json::array(value->begin(), value->end());
        else if constexpr (std::is_same_v<T, std::optional<double>>)
          return *value ? json::value(**value) : json::value(kAuto);
        else return json::value(*value);
      },
      setting.value);
}

troupe::Status assign(const Setting& setting, const json::value& value) {
  return std::visit([&](auto* to) { return assign_to(setting, to, value); }, setting.value);
}

troupe::Status assign_text(const Setting& setting, std::string_view text) {
  if (std::holds_alternative<std::vector<std::size_t>*>(setting.value)) {
    json::array list;
    while (!text.empty()) {
      const std::size_t comma = std::min(text.find(','), text.size());
      list.push_back(scalar(std::string(text.substr(0, comma))));
      text.remove_prefix(std::min(comma + 1, text.size()));
    }
    return assign(setting, list);
  }
  std::string word(text);
  // Whole, so that it is the same program in another folder, and where it is kept in a file (named_program.h).
  if (setting.program && word.find('/') != word.npos)
    word = std::filesystem::absolute(word).lexically_normal().string();
  return assign(setting, as_wanted(setting, scalar(word), word));
}

json::object to_json(std::span<const Setting> settings) {
  json::object out;
  for (const Setting& setting : settings) out[setting.name] = value_of(setting);
  return out;
}

troupe::Status assign_all(std::span<const Setting> settings, const json::object& values) {
  for (const auto& [name, value] : values) {
    const auto at = std::ranges::find(settings, name, &Setting::name);
    if (at == settings.end()) {
      std::vector<std::string> names;
      for (const Setting& setting : settings) names.push_back(setting.name);
      return troupe::InvalidArgumentError(fmt::format("there is no setting '{}': did you mean '{}'?",
                                                      std::string_view(name), apps::nearest_name(name, names)));
    }
    if (troupe::Status status = assign(*at, value); !status.ok()) return status;
  }
  return {};
}

std::string text_of(const Setting& setting) {
  return std::visit(
      []<class T>(T* value) {
        if constexpr (std::is_same_v<T, std::vector<std::size_t>>) return fmt::format("{}", fmt::join(*value, ","));
        else if constexpr (std::is_same_v<T, std::optional<double>>)
          return *value ? fmt::format("{}", **value) : std::string(kAuto);
        else return fmt::format("{}", *value);
      },
      setting.value);
}

std::string to_yaml(std::span<const Setting> settings) {
  std::string out;
  for (const Setting& setting : settings) {
    std::string text = text_of(setting);
    if (std::holds_alternative<std::vector<std::size_t>*>(setting.value)) {
      text = "[" + text + "]";
    } else if (std::holds_alternative<std::string*>(setting.value)) {
      // A word that would be read as something else is quoted, as JSON quotes it: that is YAML too.
      const bool plain = scalar(text).is_string() && !text.empty() &&
                         text.find_first_of(":#{}[],&*!|>'\"%@` ") == std::string::npos;
      if (!plain) text = json::serialize(json::value(text));
    }
    out += fmt::format("{}: {}\n", setting.name, text);
  }
  return out;
}

troupe::Result<json::object> parse_yaml(const std::string& text, const std::string& source) {
  const auto refuse = [&](const std::string& why) {
    return troupe::InvalidArgumentError(fmt::format("{}: {}", source, why));
  };
  try {
    const YAML::Node root = YAML::Load(text);
    if (root.IsNull()) return json::object();
    if (!root.IsMap()) return refuse("a mapping of settings to values is wanted");
    json::object out;
    for (const auto& entry : root) {
      const auto name = entry.first.as<std::string>();
      if (out.contains(name))
        return refuse(fmt::format("line {}: {} is there twice", entry.first.Mark().line + 1, name));
      out[name] = from_yaml(entry.second);
    }
    return out;
  } catch (const YAML::Exception& error) {
    return refuse(fmt::format("line {}: {}", error.mark.line + 1, error.msg));
  } catch (const troupe::Error& error) {
    return refuse(error.message());
  }
}

troupe::Result<json::object> read_yaml(const std::filesystem::path& path) {
  const auto text = read_input(path, kYamlMax);
  if (!text.ok()) return text.error_ptr();
  return parse_yaml(*text, path.string());
}

}  // namespace apps

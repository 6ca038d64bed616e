#include "apps/cli/parse.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace troupe::cli {
namespace {

ErrorPtr wrong(std::string_view text, const char* why) {
  return make_error<InvalidArgumentError>("'" + std::string(text) + "' " + why);
}

/// The power of 1024 that a unit stands for; -1 for none of ours.
int exponent_of(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  static constexpr std::string_view kLetters = "kmgtp";
  const std::size_t at = kLetters.find(char(unit[0] | 0x20));
  const std::string_view rest = unit.substr(1);
  if (at == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "b" || rest == "iB" || rest == "ib"))
    return -1;
  return int(at) + 1;
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || !std::isfinite(number) || number < 0)
    return wrong(text, "is not a size: a number with an optional unit, as in 512MB or 2GB");
  const int exponent = exponent_of(text.substr(std::size_t(end - text.data())));
  if (exponent < 0) return wrong(text, "has an unknown unit: B, KB, MB, GB, TB and PB are known");
  const double bytes = std::ldexp(number, 10 * exponent);
  if (bytes >= 0x1p63) return wrong(text, "is larger than any memory");
  return std::uint64_t(bytes);
}

Result<std::map<std::string, std::string>> parse_pairs(std::string_view text) {
  std::map<std::string, std::string> pairs;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(item.size() == text.size() ? item.size() : item.size() + 1);
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) return wrong(item, "is not of the form key=value");
    if (!pairs.emplace(item.substr(0, equals), item.substr(equals + 1)).second) return wrong(item, "names a key twice");
  }
  return pairs;
}

Result<std::map<std::string, double>> parse_amounts(std::string_view text) {
  Result<std::map<std::string, std::string>> pairs = parse_pairs(text);
  if (!pairs) return pairs.error_ptr();
  std::map<std::string, double> amounts;
  for (const auto& [key, value] : *pairs) {
    double amount = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), amount);
    if (error != std::errc{} || end != value.data() + value.size() || !std::isfinite(amount) || amount < 0)
      return wrong(key + "=" + value, "does not give a number that is zero or more");
    amounts[key] = amount;
  }
  return amounts;
}

std::string size_text(std::uint64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) { value /= 1024; ++unit; }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace troupe::cli

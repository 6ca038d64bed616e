#include "apps/train/data/digits.h"

#include <charconv>
#include <string>

#include "apps/train/data/files.h"

namespace troupe::train {
namespace {

constexpr int kWhite = 16;

// The next number of the line and the comma behind it; -1 where there is none in [0, limit].
int take_number(std::string_view& line, int limit) {
  int value = -1;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{} || value < 0 || value > limit) return -1;
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  if (!line.empty() && line.front() != ',') return -1;
  if (!line.empty()) line.remove_prefix(1);
  return value;
}

}  // namespace

Result<Digits> load_digits(const std::filesystem::path& path) {
  const auto text = read_data_file(path);
  if (!text.ok()) return text.error_ptr();
  return parse_digits(*text, path.string());
}

Result<Digits> parse_digits(std::string_view text, std::string_view name) {
  Digits out;
  std::size_t number = 0;
  const auto fail = [&](const std::string& why) {
    return InvalidArgumentError(std::string(name) + ", line " + std::to_string(number) + ": " + why);
  };
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (number == 1) {
      if (!line.starts_with("p0,")) return fail("no header of pixel columns p0, p1, ...: this is not the digits file");
      continue;
    }
    for (std::size_t i = 0; i < Digits::kPixels; ++i) {
      const int pixel = take_number(line, kWhite);
      if (pixel < 0) return fail("column " + std::to_string(i + 1) + " is no pixel from 0 to 16");
      out.pixels.push_back(static_cast<float>(pixel) / kWhite);
    }
    const int label = take_number(line, Digits::kClasses - 1);
    if (label < 0 || !line.empty()) return fail("the last column is no digit, or more columns follow");
    out.labels.push_back(label);
  }
  if (out.labels.empty()) return fail("no rows");
  return out;
}

Result<DigitRows> digit_rows(const Digits& digits, std::span<const std::int32_t> rows) {
  DigitRows out;
  out.features.reserve(rows.size() * Digits::kPixels);
  out.targets.reserve(rows.size());
  for (const std::int32_t row : rows) {
    if (row < 0 || static_cast<std::size_t>(row) >= digits.rows())
      return InvalidArgumentError("row " + std::to_string(row) + " of " + std::to_string(digits.rows()) + " digits");
    const auto image = digits.image(static_cast<std::size_t>(row));
    out.features.insert(out.features.end(), image.begin(), image.end());
    out.targets.push_back(digits.labels[static_cast<std::size_t>(row)]);
  }
  return out;
}

}  // namespace troupe::train

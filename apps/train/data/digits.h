// digits.csv: 8x8 images of handwritten digits, pixels 0 to 16, one header line, the digit in the last column.
//
// Plain value; any thread. Every line is checked: a file that is not what it says is never half-read.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include <troupe/result.h>

namespace troupe::train {

struct Digits {
  static constexpr std::size_t kPixels = 64;
  static constexpr std::size_t kClasses = 10;
  static constexpr std::size_t kTrainRows = 1500;  ///< of the 1797 rows; the others test

  std::vector<float> pixels;  ///< [rows][kPixels], divided by 16: 0 to 1
  std::vector<std::int32_t> labels;

  std::size_t rows() const { return labels.size(); }
  std::span<const float> image(std::size_t row) const { return std::span(pixels).subspan(row * kPixels, kPixels); }
};

/// Missing: NotFoundError; empty or malformed: InvalidArgumentError with the line.
Result<Digits> load_digits(const std::filesystem::path& path);
/// The same from the text; `name` stands in the errors.
Result<Digits> parse_digits(std::string_view text, std::string_view name);

/// Features and labels of some rows, in the order given.
struct DigitRows {
  std::vector<float> features;
  std::vector<std::int32_t> targets;
};
/// InvalidArgumentError where a row does not exist.
Result<DigitRows> digit_rows(const Digits& digits, std::span<const std::int32_t> rows);

}  // namespace troupe::train

#include "apps/datagen/config/libm_numbers.h"

#include <array>
#include <cmath>
#include <span>

#include "apps/datagen/files/sha256.h"

namespace datagen {
namespace {

constexpr int kPoints = 2000;    // of two versions of a function one result in hundreds is another
constexpr std::size_t kWord = 16;

std::string look() {
  Sha256 hash;
  for (int i = 1; i <= kPoints; ++i) {
    const double all = i * 0.6180339887498949, x = all - std::floor(all);  // (0, 1), evenly
    const auto y = static_cast<float>(x);
    const std::array<double, 12> doubles{std::log(x),  std::log1p(-x), std::exp(x),     std::expm1(x),
                                         std::sin(9 * x), std::cos(9 * x), std::tan(x), std::atan(x),
                                         std::pow(x, 0.3), std::tanh(x), std::erfc(x),  std::atan2(x, 0.3)};
    const std::array<float, 6> floats{std::log(y), std::exp(y), std::sin(9 * y),
                                      std::cos(9 * y), std::pow(y, 0.3F), std::tanh(y)};
    hash.update(std::as_bytes(std::span(doubles)));
    hash.update(std::as_bytes(std::span(floats)));
  }
  return hex(hash.finish()).substr(0, kWord);
}

}  // namespace

const std::string& libm_numbers() {
  static const std::string word = look();
  return word;
}

}  // namespace datagen

// What the kernel tests share: the versions that this machine can run, random values, and the measure of an error.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cpu/isa/isa.h"

namespace kernels_test {

using troupe::kernels::Isa;

inline std::vector<Isa> supported() {
  std::vector<Isa> out;
  for (Isa isa : troupe::kernels::kAllIsas) {
    if (troupe::kernels::isa_supported(isa)) out.push_back(isa);
  }
  return out;
}

inline std::string name_of_isa(const testing::TestParamInfo<Isa>& info) { return std::string(isa_name(info.param)); }

inline constexpr std::size_t kAwkwardSizes[] = {1, 15, 17, 33, 64, 255, 1'000'003};

/// Uniform in +-scale, rounded to float, so that float and double versions see the same numbers.
template <class T>
std::vector<T> random_values(std::mt19937_64& random, std::size_t count, double scale) {
  std::vector<T> out(count);
  for (T& v : out)
    v = static_cast<T>(static_cast<float>(scale * (static_cast<double>(random() >> 11) * 0x1p-52 - 1.0)));
  return out;
}

inline std::vector<double> widen(std::span<const float> in) { return {in.begin(), in.end()}; }

/// max|got - want| / max(max|want|, floor); infinite when anything is not finite. The floor is for sums that may
/// cancel.
template <class A>
double deviation(const A& got, const std::vector<double>& want, double floor = 1e-30) {
  double largest = floor;
  double worst = 0;
  for (double w : want) largest = std::max(largest, std::abs(w));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : std::numeric_limits<double>::infinity();
  }
  return worst / largest;
}

}  // namespace kernels_test

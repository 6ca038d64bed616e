// Space: what an observation or an action is, in Gymnasium's terms: Discrete, MultiDiscrete and Box. Dict and Tuple
// are refused by name.
//
// Plain values; any thread.
//
// SPA-1  An element of a space is `elements()` numbers of type `dtype()` in C order; a Discrete one is one number.
// SPA-2  A Box has its bounds for each element or one for all; an infinite bound is an infinity.
// SPA-3  What to_json gives space_from_json reads back, and so does Gymnasium (by the names of its constructor's
//        arguments).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/spaces/dtype.h"

namespace rl {

/// One of start, ..., start + n - 1.
struct Discrete {
  std::int64_t n = 0;
  std::int64_t start = 0;
  friend bool operator==(const Discrete&, const Discrete&) = default;
};

/// Several choices at once: the i-th is one of start[i], ..., start[i] + nvec[i] - 1. An empty `start` is all zeros.
struct MultiDiscrete {
  std::vector<std::int64_t> nvec;
  std::vector<std::int64_t> start = {};
  friend bool operator==(const MultiDiscrete&, const MultiDiscrete&) = default;
};

/// An array of numbers within bounds, both inclusive.
struct Box {
  DType dtype = DType::kFloat32;
  std::vector<std::size_t> shape;
  std::vector<double> low, high;  // one number for all elements, or one for each
  friend bool operator==(const Box&, const Box&) = default;

  [[nodiscard]] double low_of(std::size_t element) const { return low.size() == 1 ? low[0] : low[element]; }
  [[nodiscard]] double high_of(std::size_t element) const { return high.size() == 1 ? high[0] : high[element]; }
};

using Space = std::variant<Discrete, MultiDiscrete, Box>;

/// InvalidArgumentError when it makes no sense: no choice or more than 2^31, bounds that cross or are as many as no
/// shape has.
[[nodiscard]] troupe::Status check_space(const Space& space);

/// Empty for Discrete: its elements are numbers.
[[nodiscard]] std::vector<std::size_t> shape_of(const Space& space);
/// Numbers in one element.
[[nodiscard]] std::size_t elements_of(const Space& space);
/// Choices of all places together: the bytes of a row of an action mask. 0: the elements are numbers.
[[nodiscard]] std::size_t choices_of(const Space& space);
/// Of choices int64, as in Gymnasium.
[[nodiscard]] DType dtype_of(const Space& space);

/// {"type": "Box", "dtype": "float32", "shape": [4], "low": [...], "high": [...]}; infinities as "inf" and "-inf".
[[nodiscard]] boost::json::value to_json(const Space& space);
/// InvalidArgumentError for Dict, Tuple and whatever else is not of the three kinds, or does not pass check_space.
[[nodiscard]] troupe::Result<Space> space_from_json(const boost::json::value& json);
/// "Discrete(2)", "Box(float32, [4])": for messages.
[[nodiscard]] std::string to_string(const Space& space);

}  // namespace rl

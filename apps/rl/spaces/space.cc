#include "apps/rl/spaces/space.h"

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rl {
namespace {

namespace json = boost::json;

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;  // clang before 17 does not deduce it

troupe::Status refused(std::string why) { return troupe::InvalidArgumentError(std::move(why)); }

constexpr std::int64_t kMostChoices = std::int64_t{1} << 31;  // of all places: more is a mistake

troupe::Status check(const Discrete& space) {
  if (space.n < 1) return refused("a Discrete space needs at least one choice, and has " + std::to_string(space.n));
  if (space.n > kMostChoices) return refused(fmt::format("a Discrete space of {} choices: 2^31 at most", space.n));
  if (space.start > std::numeric_limits<std::int64_t>::max() - space.n)
    return refused("a Discrete space ends beyond 64 bits");
  return {};
}

troupe::Status check(const MultiDiscrete& space) {
  if (space.nvec.empty()) return refused("a MultiDiscrete space needs at least one dimension");
  if (!space.start.empty() && space.start.size() != space.nvec.size())
    return refused("a MultiDiscrete space has one start for each dimension, or none");
  for (std::size_t i = 0; i < space.nvec.size(); ++i)
    if (troupe::Status one = check(Discrete{space.nvec[i], space.start.empty() ? 0 : space.start[i]}); !one.ok())
      return one;
  std::int64_t choices = 0;
  for (const std::int64_t n : space.nvec)
    if ((choices += n) > kMostChoices) return refused("a MultiDiscrete space of more than 2^31 choices");
  return {};
}

std::size_t product(const std::vector<std::size_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
}

troupe::Status check(const Box& space) {
  constexpr std::size_t kMost = std::size_t{1} << 32;  // of one observation: more is a mistake
  std::size_t elements = 1;
  for (std::size_t extent : space.shape) {
    if (extent == 0) return refused("a Box has no dimension of length 0");
    if (extent > kMost / elements) return refused("a Box of more than 2^32 numbers");
    elements *= extent;
  }
  for (const auto* bounds : {&space.low, &space.high})
    if (bounds->size() != 1 && bounds->size() != elements)
      return refused(fmt::format("a Box of {} numbers has one bound or as many, not {}", elements, bounds->size()));
  const std::size_t rows = std::max(space.low.size(), space.high.size());
  for (std::size_t i = 0; i < rows; ++i)
    if (!(space.low_of(i) <= space.high_of(i)))
      return refused(fmt::format("a Box's bounds cross: {} is above {}", space.low_of(i), space.high_of(i)));
  return {};
}

json::value number(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

json::value numbers(const std::vector<double>& values) {
  json::array out;
  for (double value : values) out.push_back(number(value));
  return out;
}

// ---------------------------------------------------------------------------------------------------------- reading

[[noreturn]] void raise(const std::string& why) { troupe::InvalidArgumentError("a space: " + why).raise(); }

const json::value& member(const json::object& object, std::string_view name) {
  const json::value* found = object.if_contains(name);
  if (!found) raise("\"" + std::string(name) + "\" is missing");
  return *found;
}

std::int64_t integer(const json::value& value) {
  boost::system::error_code error;
  const auto number = value.to_number<std::int64_t>(error);
  if (error) raise("a whole number is expected, not " + json::serialize(value));
  return number;
}

double real(const json::value& value) {
  if (const json::string* text = value.if_string()) {
    if (*text == "inf") return std::numeric_limits<double>::infinity();
    if (*text == "-inf") return -std::numeric_limits<double>::infinity();
  }
  boost::system::error_code error;
  const auto number = value.to_number<double>(error);
  if (error) raise("a number is expected, not " + json::serialize(value));
  return number;
}

const json::array& list(const json::value& value) {
  const json::array* array = value.if_array();
  if (!array) raise("a list is expected, not " + json::serialize(value));
  return *array;
}

/// Lists in lists, as NumPy's tolist gives them, in C order.
void flatten(const json::value& value, std::vector<double>& into) {
  if (const json::array* array = value.if_array()) {
    for (const json::value& one : *array) flatten(one, into);
  } else {
    into.push_back(real(value));
  }
}

std::vector<std::int64_t> integers(const json::value& value) {
  std::vector<std::int64_t> out;
  for (const json::value& one : list(value)) out.push_back(integer(one));
  return out;
}

/// Bounds of numbers that are floats are mostly floats; Boost's parser may be off by some last bits of a double, and a
/// float has fewer.
void round_to_floats(std::vector<double>& bounds) {
  constexpr double kOff = 0x1p-48;
  for (double& one : bounds) {
    const double rounded = static_cast<float>(one);
    if (std::abs(rounded - one) <= kOff * std::abs(one)) one = rounded;
  }
}

Box box(const json::object& object) {
  const json::string* dtype = member(object, "dtype").if_string();
  if (!dtype) raise("\"dtype\" is a name");
  Box out;
  out.dtype = dtype_of(std::string_view(*dtype)).value();
  for (std::int64_t extent : integers(member(object, "shape"))) {
    if (extent < 0) raise("a negative length");
    out.shape.push_back(static_cast<std::size_t>(extent));
  }
  flatten(member(object, "low"), out.low);
  flatten(member(object, "high"), out.high);
  if (out.dtype == DType::kFloat32) round_to_floats(out.low), round_to_floats(out.high);
  return out;
}

Space read(const json::value& value) {
  const json::object* object = value.if_object();
  if (!object) raise("an object is expected, not " + json::serialize(value));
  const json::string* type = member(*object, "type").if_string();
  if (type && *type == "Discrete") {
    const json::value* start = object->if_contains("start");
    return Discrete{integer(member(*object, "n")), start ? integer(*start) : 0};
  }
  if (type && *type == "MultiDiscrete") {
    const json::value* start = object->if_contains("start");
    return MultiDiscrete{integers(member(*object, "nvec")), start ? integers(*start) : std::vector<std::int64_t>{}};
  }
  if (type && *type == "Box") return box(*object);
  raise(json::serialize(member(*object, "type")) + " is not supported; Discrete, MultiDiscrete and Box are");
}

}  // namespace

troupe::Status check_space(const Space& space) {
  return std::visit([](const auto& one) { return check(one); }, space);
}

std::vector<std::size_t> shape_of(const Space& space) {
  return std::visit(Overloaded{[](const Discrete&) { return std::vector<std::size_t>{}; },
                               [](const MultiDiscrete& one) { return std::vector<std::size_t>{one.nvec.size()}; },
                               [](const Box& one) { return one.shape; }},
                    space);
}

std::size_t elements_of(const Space& space) { return product(shape_of(space)); }

std::size_t choices_of(const Space& space) {
  if (const auto* one = std::get_if<Discrete>(&space)) return static_cast<std::size_t>(one->n);
  const auto* many = std::get_if<MultiDiscrete>(&space);
  if (many == nullptr) return 0;
  return static_cast<std::size_t>(std::accumulate(many->nvec.begin(), many->nvec.end(), std::int64_t{0}));
}

DType dtype_of(const Space& space) {
  const Box* box = std::get_if<Box>(&space);
  return box ? box->dtype : DType::kInt64;
}

json::value to_json(const Space& space) {
  return std::visit(
      Overloaded{[](const Discrete& one) -> json::value {
                   return {{"type", "Discrete"}, {"dtype", "int64"}, {"n", one.n}, {"start", one.start}};
                 },
                 [](const MultiDiscrete& one) -> json::value {
                   json::object out{{"type", "MultiDiscrete"}, {"dtype", "int64"}};
                   out["nvec"] = json::value_from(one.nvec);
                   if (!one.start.empty()) out["start"] = json::value_from(one.start);
                   return out;
                 },
                 [](const Box& one) -> json::value {
                   return {{"type", "Box"},
                           {"dtype", name_of(one.dtype)},
                           {"shape", json::value_from(one.shape)},
                           {"low", numbers(one.low)},
                           {"high", numbers(one.high)}};
                 }},
      space);
}

troupe::Result<Space> space_from_json(const json::value& json) {
  try {
    Space space = read(json);
    if (troupe::Status sound = check_space(space); !sound.ok()) return sound.error_ptr();
    return space;
  } catch (const troupe::InvalidArgumentError& error) { return error; }
}

std::string to_string(const Space& space) {
  return std::visit(Overloaded{[](const Discrete& one) {
                                 return one.start == 0 ? fmt::format("Discrete({})", one.n)
                                                       : fmt::format("Discrete({}, start={})", one.n, one.start);
                               },
                               [](const MultiDiscrete& one) {
                                 return fmt::format("MultiDiscrete([{}])", fmt::join(one.nvec, ", "));
                               },
                               [](const Box& one) {
                                 return fmt::format("Box({}, [{}])", name_of(one.dtype), fmt::join(one.shape, ", "));
                               }},
                    space);
}

}  // namespace rl

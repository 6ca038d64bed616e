#include "apps/rl/samples/demonstrations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>

#include <boost/json.hpp>
#include <fmt/format.h>

#include "apps/common/precise_json.h"
#include "apps/common/safetensors/safetensors.h"

namespace rl {
namespace {

namespace json = boost::json;

constexpr const char* kDemonstrationsKind = "demonstrations 1";

const char* file_dtype(DType dtype) {
  switch (dtype) {
    case DType::kBool: return "BOOL";
    case DType::kUint8: return "U8";
    case DType::kInt32: return "I32";
    case DType::kInt64: return "I64";
    case DType::kFloat32: return "F32";
    case DType::kFloat64: return "F64";
  }
  return "";
}

std::vector<std::size_t> shape_in_file(const Column& column, const Demonstrations& d) {
  std::vector<std::size_t> shape;
  if (column.name == "obs") shape = shape_of(d.observation_space);
  if (column.name == "action") shape = shape_of(d.action_space);
  if (column.name == kMaskColumn) shape = {column.width};
  shape.insert(shape.begin(), d.steps.rows());
  return shape;
}

void check_choices(ConstRows actions, const Space& space) {
  const auto check = [&](std::int64_t action, std::int64_t start, std::int64_t n, std::size_t step) {
    if (action < start || action >= start + n)
      throw std::invalid_argument(fmt::format("the action of step {} is {}, not one of {}", step, action,
                                              to_string(space)));
  };
  if (const auto* choice = std::get_if<Discrete>(&space)) {
    const auto all = actions.as<std::int64_t>();
    for (std::size_t i = 0; i < all.size(); ++i) check(all[i], choice->start, choice->n, i);
  } else if (const auto* choices = std::get_if<MultiDiscrete>(&space)) {
    const auto all = actions.as<std::int64_t>();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t place = i % choices->nvec.size();
      check(all[i], choices->start.empty() ? 0 : choices->start[place], choices->nvec[place], i / actions.width());
    }
  }
}

/// Each choice that was taken was allowed.
void check_masks(ConstRows actions, ConstRows masks, const Space& space) {
  if (masks.width() != choices_of(space))
    throw std::invalid_argument(fmt::format("a mask of {} choices for {}", masks.width(), to_string(space)));
  MultiDiscrete places;
  if (const auto* many = std::get_if<MultiDiscrete>(&space)) places = *many;
  else places = {.nvec = {std::get<Discrete>(space).n}, .start = {std::get<Discrete>(space).start}};
  const auto action = actions.as<std::int64_t>();
  const auto mask = masks.as<std::uint8_t>();
  std::size_t first = 0;
  for (std::size_t i = 0; i < action.size(); ++i) {
    const std::size_t place = i % places.nvec.size();
    const std::int64_t choice = action[i] - (places.start.empty() ? 0 : places.start[place]);
    if (mask[first + static_cast<std::size_t>(choice)] == 0)
      throw std::invalid_argument(
          fmt::format("the action of step {} is {}, which its mask forbids", i / places.nvec.size(), action[i]));
    first += static_cast<std::size_t>(places.nvec[place]);
  }
}

template <class T>
void check_finite(std::span<const T> numbers, const std::string& name, std::size_t width) {
  const auto at = std::ranges::find_if(numbers, [](T number) { return !std::isfinite(number); });
  if (at != numbers.end())
    throw std::invalid_argument(
        fmt::format("'{}' of step {} is {}", name, static_cast<std::size_t>(at - numbers.begin()) / width, *at));
}

void check_column(const Column& column, const SampleView& steps) {
  const ConstRows rows = steps.column(column.name);
  if (column.dtype == DType::kFloat32) check_finite(rows.as<float>(), column.name, rows.width());
  if (column.dtype == DType::kFloat64) check_finite(rows.as<double>(), column.name, rows.width());
}

std::vector<std::size_t> ends_of(const SampleView& steps) {
  const auto terminated = steps.column("terminated").as<std::uint8_t>();
  const auto truncated = steps.column("truncated").as<std::uint8_t>();
  std::vector<std::size_t> out;
  for (std::size_t step = 0; step < steps.rows(); ++step)
    if (terminated[step] != 0 || truncated[step] != 0) out.push_back(step + 1);
  if (out.empty() || out.back() != steps.rows()) throw std::invalid_argument("its last episode does not end");
  return out;
}

/// DEM-1. Throws std::invalid_argument.
void check_steps(Demonstrations& d) {
  const SampleView steps = d.steps.view();
  for (const Column& column : steps.layout.columns()) check_column(column, steps);
  check_choices(steps.column("action"), d.action_space);
  if (steps.has(kMaskColumn)) check_masks(steps.column("action"), steps.column(kMaskColumn), d.action_space);
  d.ends = ends_of(steps);
}

Demonstrations demonstrations_from(const apps::ArrayFile& file) {
  const auto kind = file.metadata.find("troupe.rl");
  if (kind == file.metadata.end() || kind->second != kDemonstrationsKind)
    throw std::invalid_argument("it is not a file of demonstrations");
  const json::object words = apps::parse_json(file.metadata.at("demonstrations")).as_object();
  Demonstrations out{.env = std::string(words.at("env").as_string()),
                     .observation_space = space_from_json(words.at("observation_space")).value(),
                     .action_space = space_from_json(words.at("action_space")).value()};
  const apps::ArrayFile::Entry* reward = file.find("reward");
  if (reward == nullptr || reward->shape.size() != 1) throw std::invalid_argument("it has no rewards");
  const std::size_t mask_width = file.find(kMaskColumn) == nullptr ? 0 : choices_of(out.action_space);
  const std::vector<Column> columns = demonstration_columns(out.observation_space, out.action_space, mask_width);
  const std::size_t rows = reward->shape[0];
  for (const Column& column : columns) {  // before memory is asked for
    const apps::ArrayFile::Entry* entry = file.find(column.name);
    std::size_t size = 0;
    if (entry == nullptr || entry->dtype != file_dtype(column.dtype) ||
        __builtin_mul_overflow(rows, column.width * size_of(column.dtype), &size) || entry->size != size)
      throw std::invalid_argument(fmt::format("'{}' is missing, or of another type or size", column.name));
  }
  out.steps = OwnedSamples(columns, rows);
  for (const Column& column : columns) {
    const auto bytes = file.bytes(*file.find(column.name));
    if (!bytes.empty()) std::memcpy(out.steps.column(column.name).data(), bytes.data(), bytes.size());
  }
  check_steps(out);
  return out;
}

}  // namespace

std::vector<Column> demonstration_columns(const Space& observation_space, const Space& action_space,
                                          std::size_t mask_width) {
  std::vector<Column> out{column_of("obs", observation_space), column_of("action", action_space), {.name = "reward"},
                          {.name = "terminated", .dtype = DType::kUint8},
                          {.name = "truncated", .dtype = DType::kUint8}};
  if (mask_width != 0) out.push_back(mask_column(mask_width));
  return out;
}

troupe::Status save_demonstrations(const std::filesystem::path& path, const Demonstrations& d) {
  const SampleView steps = d.steps.view();
  std::vector<apps::ArrayView> arrays;
  for (const Column& column : steps.layout.columns()) {
    const ConstRows rows = steps.column(column.name);
    arrays.push_back({.name = column.name,
                      .dtype = file_dtype(column.dtype),
                      .shape = shape_in_file(column, d),
                      .bytes = {rows.data(), rows.bytes()}});
  }
  const json::object words{{"env", d.env},
                           {"observation_space", to_json(d.observation_space)},
                           {"action_space", to_json(d.action_space)}};
  return apps::write_safetensors(
      path, {{"troupe.rl", kDemonstrationsKind}, {"demonstrations", json::serialize(words)}}, arrays);
}

troupe::Result<Demonstrations> load_demonstrations(const std::filesystem::path& path) {
  const auto file = apps::read_safetensors(path);
  if (!file.ok()) return file.error_ptr();
  try {
    return demonstrations_from(*file);
  } catch (const std::exception& error) {
    return troupe::SerializationError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

troupe::Status check_demonstrations(Demonstrations& d) {
  try {
    check_steps(d);
    return {};
  } catch (const std::exception& error) { return troupe::InvalidArgumentError(error.what()); }
}

std::vector<double> returns_of(const Demonstrations& d) {
  const SampleView steps = d.steps.view();
  const auto reward = steps.column("reward").as<float>();
  std::vector<double> out;
  std::size_t begin = 0;
  for (const std::size_t end : d.ends) {
    double sum = 0;
    for (; begin < end; ++begin) sum += static_cast<double>(reward[begin]);
    out.push_back(sum);
  }
  return out;
}

}  // namespace rl

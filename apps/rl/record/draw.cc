#include "apps/rl/record/draw.h"

#include <array>
#include <functional>
#include <string>

#include "apps/rl/record/draw_classic.h"
#include "apps/rl/record/draw_grid.h"

namespace rl {
namespace {

using DrawRow = std::function<Frame(ConstRows, std::optional<double>)>;

struct Classic {
  std::string_view id;
  std::size_t width;  // of an observation
  Frame (*draw)(std::span<const float>, std::optional<double>);
};

constexpr std::array kClassics{
    Classic{"CartPole-v1", 4, [](std::span<const float> row, std::optional<double>) { return draw_cartpole(row); }},
    Classic{"Acrobot-v1", 6, [](std::span<const float> row, std::optional<double>) { return draw_acrobot(row); }},
    Classic{"MountainCar-v0", 2,
            [](std::span<const float> row, std::optional<double>) { return draw_mountain_car(row, 0.5); }},
    Classic{"MountainCarContinuous-v0", 2,
            [](std::span<const float> row, std::optional<double>) { return draw_mountain_car(row, 0.45); }},
    Classic{"Pendulum-v1", 3, draw_pendulum},
};

DrawRow classic_drawing(std::string_view env_id, const Box& box) {
  if (env_id.starts_with("gym:")) env_id.remove_prefix(4);
  for (const Classic& one : kClassics)
    if (one.id == env_id && box.dtype == DType::kFloat32 && box.shape == std::vector<std::size_t>{one.width})
      return [draw = one.draw](ConstRows row, std::optional<double> action) { return draw(row.as<float>(), action); };
  return {};
}

std::span<const std::uint8_t> bytes_of(ConstRows row) {
  return {reinterpret_cast<const std::uint8_t*>(row.data()), row.bytes()};
}

DrawRow picture_drawing(const Box& box) {
  const std::size_t dimensions = box.shape.size();
  if (dimensions < 2 || dimensions > 3 || elements_of(box) == 0) return {};
  const GridShape shape{box.shape[0], box.shape[1], dimensions == 3 ? box.shape[2] : 1};
  if (box.dtype == DType::kBool && dimensions == 3)
    return [shape](ConstRows row, std::optional<double>) { return draw_grid(shape, bytes_of(row)); };
  if (box.dtype == DType::kUint8 && (shape.channels == 1 || shape.channels == 3))
    return [shape](ConstRows row, std::optional<double>) { return draw_image(shape, bytes_of(row)); };
  return {};
}

DrawRow drawing_for(std::string_view env_id, const Space& observations) {
  const Box* box = std::get_if<Box>(&observations);
  if (box == nullptr) return {};
  DrawRow drawing = classic_drawing(env_id, *box);
  return drawing ? drawing : picture_drawing(*box);
}

troupe::Status no_drawing(std::string_view env_id, const Space& observations) {
  std::string known;
  for (const Classic& one : kClassics) known += std::string(one.id) + ", ";
  return troupe::NotFoundError("no drawing of " + std::string(env_id) + " with observations " +
                               to_string(observations) + "; drawn are " + known +
                               "grids (bool [h, w, n]) and images (uint8 [h, w], [h, w, 1] or [h, w, 3])");
}

}  // namespace

troupe::Status check_drawable(std::string_view env_id, const Space& observations) {
  if (!drawing_for(env_id, observations)) return no_drawing(env_id, observations);
  return {};
}

troupe::Result<Frame> draw(std::string_view env_id, const Space& observations, ConstRows observation,
                           std::optional<double> action) {
  const DrawRow drawing = drawing_for(env_id, observations);
  if (!drawing) return no_drawing(env_id, observations).error_ptr();
  if (observation.rows() != 1 || observation.width() != elements_of(observations) ||
      observation.dtype() != dtype_of(observations))
    return troupe::InvalidArgumentError("a row to draw is one of " + to_string(observations));
  return drawing(observation, action);
}

}  // namespace rl

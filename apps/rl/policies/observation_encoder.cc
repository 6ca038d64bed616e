#include "apps/rl/policies/observation_encoder.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace rl {
namespace {

constexpr float kBrightest = 255.0f;

bool is_channels_first(const std::vector<std::size_t>& shape) {
  return shape.size() == 3 && shape[0] < shape[1] && shape[0] < shape[2];
}

template <class T>
void as_floats(std::span<const T> from, float scale, std::span<float> to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = static_cast<float>(from[i]) * scale;
}

/// [c, h, w] to [h, w, c].
void turn(std::span<const float> from, const std::vector<std::size_t>& shape, std::span<float> to) {
  const std::size_t height = shape[0], width = shape[1], channels = shape[2], pixels = height * width;
  for (std::size_t row = 0; row < from.size() / (pixels * channels); ++row) {
    const std::size_t at = row * pixels * channels;
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
      for (std::size_t c = 0; c < channels; ++c) to[at + pixel * channels + c] = from[at + c * pixels + pixel];
    }
  }
}

}  // namespace

troupe::Result<ObservationEncoder> ObservationEncoder::make(Space space) {
  if (troupe::Status sound = check_space(space); !sound.ok()) return sound.error_ptr();
  return ObservationEncoder(std::move(space));
}

ObservationEncoder::ObservationEncoder(Space space) : space_(std::move(space)) {
  if (const auto* one = std::get_if<Discrete>(&space_)) {
    shape_ = {static_cast<std::size_t>(one->n)};
  } else if (const auto* several = std::get_if<MultiDiscrete>(&space_)) {
    shape_ = {static_cast<std::size_t>(std::accumulate(several->nvec.begin(), several->nvec.end(), std::int64_t{0}))};
  } else {
    shape_ = std::get<Box>(space_).shape;
    channels_first_ = is_channels_first(shape_);
    if (channels_first_) shape_ = {shape_[1], shape_[2], shape_[0]};
    if (shape_.empty()) shape_ = {1};
  }
  size_ = std::accumulate(shape_.begin(), shape_.end(), std::size_t{1}, std::multiplies<>());
}

std::span<const float> ObservationEncoder::encode(ConstRows obs, std::vector<float>& memory) const {
  if (!std::holds_alternative<Box>(space_)) {
    const MultiDiscrete choices = std::holds_alternative<Discrete>(space_)
                                      ? MultiDiscrete{.nvec = {std::get<Discrete>(space_).n},
                                                      .start = {std::get<Discrete>(space_).start}}
                                      : std::get<MultiDiscrete>(space_);
    memory.assign(obs.rows() * size_, 0.0f);
    const std::span<const std::int64_t> from = obs.as<std::int64_t>();
    std::size_t at = 0, first = 0;
    for (std::size_t row = 0; row < obs.rows(); ++row) {
      for (std::size_t k = 0; k < choices.nvec.size(); ++k, ++at) {
        const std::int64_t index = from[at] - (choices.start.empty() ? 0 : choices.start[k]);
        if (index < 0 || index >= choices.nvec[k])
          troupe::InvalidArgumentError(fmt::format("row {}: {} is not in {}", row, from[at], to_string(space_)))
              .raise();
        memory[first + static_cast<std::size_t>(index)] = 1.0f;
        first += static_cast<std::size_t>(choices.nvec[k]);
      }
    }
    return memory;
  }
  std::span<const float> floats;
  if (obs.dtype() == DType::kFloat32) {
    floats = obs.as<float>();
    if (!channels_first_) return floats;
  } else {
    memory.resize(obs.rows() * obs.width());
    switch (obs.dtype()) {
      case DType::kBool: as_floats(obs.as<bool>(), 1.0f, std::span(memory)); break;
      case DType::kUint8: as_floats(obs.as<std::uint8_t>(), 1.0f / kBrightest, std::span(memory)); break;
      case DType::kInt32: as_floats(obs.as<std::int32_t>(), 1.0f, std::span(memory)); break;
      case DType::kInt64: as_floats(obs.as<std::int64_t>(), 1.0f, std::span(memory)); break;
      case DType::kFloat64: as_floats(obs.as<double>(), 1.0f, std::span(memory)); break;
      case DType::kFloat32: break;
    }
    floats = memory;
  }
  if (!channels_first_) return floats;
  const std::vector<float> before(floats.begin(), floats.end());
  memory.resize(before.size());
  turn(before, shape_, memory);
  return memory;
}

}  // namespace rl

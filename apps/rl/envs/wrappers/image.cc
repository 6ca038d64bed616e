#include "apps/rl/envs/wrappers/image.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

namespace rl {
namespace {

/// Its shape, when it is a Box of uint8.
std::vector<std::size_t> picture_shape(const BatchEnv& env) {
  const Box* box = std::get_if<Box>(&env.specs().observation_space);
  return box != nullptr && box->dtype == DType::kUint8 ? box->shape : std::vector<std::size_t>();
}

Box picture(std::size_t height, std::size_t width) {
  return {.dtype = DType::kUint8, .shape = {height, width}, .low = {0}, .high = {255}};
}

}  // namespace

// ----------------------------------------------------------------------------------------------- ObservationWrapper

ObservationWrapper::ObservationWrapper(std::unique_ptr<BatchEnv> inner, Space shown)
    : EnvWrapper(std::move(inner)), raw_(specs().observation_space, size()), final_obs_(shown, size()) {
  changed_specs().observation_space = std::move(shown);
}

void ObservationWrapper::turn_all(ConstRows from, Rows to) const {
  for (std::size_t i = 0; i < from.rows(); ++i) turn(from.row(i), to.row(i));
}

void ObservationWrapper::observe(Rows obs) const {
  inner().observe(raw_.view());
  turn_all(raw_.view(), obs);
}

void ObservationWrapper::step(ConstRows actions, const StepOut& out) {
  StepOut into = out;
  into.obs = raw_.view();
  inner().step(actions, into);
  turn_all(raw_.view(), out.obs);
  const ConstRows last = inner().ends().final_obs;
  final_rows_ = last.rows();
  turn_all(last, final_obs_.view());
}

EpisodeEnds ObservationWrapper::ends() const {
  EpisodeEnds ends = inner().ends();
  ends.final_obs = final_obs_.view().slice(0, ends.final_obs.rows() == 0 ? 0 : final_rows_);
  return ends;
}

// -------------------------------------------------------------------------------------------------------- Grayscale

troupe::Result<std::unique_ptr<Grayscale>> Grayscale::make(std::unique_ptr<BatchEnv> inner) {
  const std::vector<std::size_t> shape = picture_shape(*inner);
  if (shape.size() != 3 || shape[2] != 3)
    return troupe::InvalidArgumentError(fmt::format("Grayscale takes pictures of uint8, [H, W, 3], and {} shows {}",
                                                    inner->specs().id, to_string(inner->specs().observation_space)));
  return std::unique_ptr<Grayscale>(new Grayscale(std::move(inner), picture(shape[0], shape[1])));
}

/// IMG-1
void Grayscale::turn(ConstRows from, Rows to) const {
  const std::span<const std::uint8_t> colours = from.as<std::uint8_t>();
  const std::span<std::uint8_t> grey = to.as<std::uint8_t>();
  for (std::size_t i = 0; i < grey.size(); ++i) {
    const std::uint32_t sum = 9798u * colours[3 * i] + 19235u * colours[3 * i + 1] + 3735u * colours[3 * i + 2];
    grey[i] = static_cast<std::uint8_t>((sum + (1u << 14)) >> 15);
  }
}

// ----------------------------------------------------------------------------------------------------------- Resize

troupe::Result<std::unique_ptr<Resize>> Resize::make(std::unique_ptr<BatchEnv> inner, Size size) {
  const std::vector<std::size_t> shape = picture_shape(*inner);
  if (shape.size() != 2)
    return troupe::InvalidArgumentError(fmt::format("Resize takes pictures of uint8, [H, W], and {} shows {}",
                                                    inner->specs().id, to_string(inner->specs().observation_space)));
  if (size.height == 0 || size.width == 0 || size.height > shape[0] || size.width > shape[1])
    return troupe::InvalidArgumentError(
        fmt::format("Resize makes pictures smaller: {} x {} of {} x {} is not", size.height, size.width, shape[0],
                    shape[1]));
  return std::unique_ptr<Resize>(
      new Resize(std::move(inner), picture(size.height, size.width), shape[0], shape[1]));
}

Resize::Resize(std::unique_ptr<BatchEnv> inner, const Box& shown, std::size_t old_height, std::size_t old_width)
    : ObservationWrapper(std::move(inner), shown),
      old_width_(old_width),
      width_(shown.shape[1]),
      halves_(old_height == 2 * shown.shape[0] && old_width == 2 * width_),
      rows_(shares(old_height, shown.shape[0])),
      columns_(shares(old_width, width_)) {}

/// In the order of the new pixels, then of the old ones. Shares below a thousandth of a pixel are none, as in OpenCV.
std::vector<Resize::Share> Resize::shares(std::size_t from, std::size_t to) {
  constexpr double kLeast = 1e-3;
  const double scale = static_cast<double>(from) / static_cast<double>(to), end = static_cast<double>(from);
  std::vector<Share> out;
  for (std::size_t k = 0; k < to; ++k) {
    const double begin = static_cast<double>(k) * scale, stop = begin + scale, width = std::min(scale, end - begin);
    const double last = std::min(std::floor(stop), end - 1), first = std::min(std::ceil(begin), last);
    const auto add = [&](double pixel, double part) {
      out.push_back({.from = static_cast<std::size_t>(pixel), .to = k, .weight = static_cast<float>(part / width)});
    };
    if (first - begin > kLeast) add(first - 1, first - begin);
    for (double pixel = first; pixel < last; ++pixel) add(pixel, 1);
    if (stop - last > kLeast) add(last, std::min({stop - last, 1.0, width}));
  }
  return out;
}

std::uint8_t Resize::rounded(float mean, bool ties_up) {
  return static_cast<std::uint8_t>(std::clamp(ties_up ? std::floor(mean + 0.5f) : std::nearbyint(mean), 0.0f, 255.0f));
}

/// IMG-2
void Resize::turn(ConstRows from, Rows to) const {
  const std::uint8_t* picture = from.as<std::uint8_t>().data();
  const std::span<std::uint8_t> out = to.as<std::uint8_t>();
  std::vector<float> row(width_), sum(width_);
  for (std::size_t at = 0; at < rows_.size(); ++at) {
    std::fill(row.begin(), row.end(), 0.0f);
    const std::uint8_t* pixels = picture + rows_[at].from * old_width_;
    for (const Share& share : columns_) row[share.to] += static_cast<float>(pixels[share.from]) * share.weight;
    for (std::size_t x = 0; x < width_; ++x) sum[x] += rows_[at].weight * row[x];
    if (at + 1 < rows_.size() && rows_[at + 1].to == rows_[at].to) continue;
    for (std::size_t x = 0; x < width_; ++x) {
      out[rows_[at].to * width_ + x] = rounded(sum[x], halves_);
      sum[x] = 0;
    }
  }
}

}  // namespace rl

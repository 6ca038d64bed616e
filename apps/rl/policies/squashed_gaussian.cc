#include "apps/rl/policies/squashed_gaussian.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/rl/algorithms/sac.h"

namespace rl {
namespace {

// Means near 0 and deviations near 1: nearly uniform actions at first.
constexpr double kFirstActionGain = 0.01;

troupe::Status check_bounds(const Space& space) {
  if (troupe::Status sound = check_space(space); !sound.ok()) return sound;
  const auto* box = std::get_if<Box>(&space);
  if (box == nullptr || box->dtype != DType::kFloat32)
    return troupe::InvalidArgumentError(
        fmt::format("a squashed Gaussian gives numbers of a Box of float32, not of {}", to_string(space)));
  for (std::size_t k = 0; k < elements_of(space); ++k) {
    if (!std::isfinite(box->low_of(k)) || !std::isfinite(box->high_of(k)) || box->low_of(k) >= box->high_of(k))
      return troupe::InvalidArgumentError(fmt::format("a squashed Gaussian needs finite bounds; number {} of {} has "
                                                      "{} and {}",
                                                      k, to_string(space), box->low_of(k), box->high_of(k)));
  }
  return {};
}

const SquashedGaussianSpec& checked_for_acting(const SquashedGaussianSpec& spec) {
  check_squashed_gaussian(spec).value();
  return spec;
}

}  // namespace

troupe::Result<SquashedGaussianSpec> squashed_gaussian_for(const Space& observation_space, const Space& action_space,
                                                           const SquashedGaussianOptions& options) {
  const auto encoder = ObservationEncoder::make(observation_space);
  if (!encoder.ok()) return encoder.error_ptr();
  if (troupe::Status bounds = check_bounds(action_space); !bounds.ok()) return bounds.error_ptr();
  SquashedGaussianSpec out{.observation_space = observation_space,
                           .action_space = action_space,
                           .network = {.input = {encoder->size()},
                                       .hidden = options.hidden,
                                       .activation = options.activation,
                                       .outputs = 2 * elements_of(action_space),
                                       .output_gain = kFirstActionGain,
                                       .gsde_first_log_std = options.gsde_first_log_std}};
  if (troupe::Status checked = check_squashed_gaussian(out); !checked.ok()) return checked.error_ptr();
  return out;
}

troupe::Status check_squashed_gaussian(const SquashedGaussianSpec& spec) {
  const auto encoder = ObservationEncoder::make(spec.observation_space);
  if (!encoder.ok()) return encoder.error_ptr();
  if (troupe::Status bounds = check_bounds(spec.action_space); !bounds.ok()) return bounds;
  if (troupe::Status checked = check_network(spec.network); !checked.ok()) return checked;
  if (spec.network.inputs() != encoder->size() || spec.network.outputs != 2 * spec.dimensions())
    return troupe::InvalidArgumentError(fmt::format("a network of {} inputs and {} outputs does not fit {} and {}",
                                                    spec.network.inputs(), spec.network.outputs,
                                                    to_string(spec.observation_space), to_string(spec.action_space)));
  return {};
}

boost::json::value to_json(const SquashedGaussianSpec& spec) {
  return {{"observation_space", to_json(spec.observation_space)},
          {"action_space", to_json(spec.action_space)},
          {"network", to_json(spec.network)}};
}

troupe::Result<SquashedGaussianSpec> squashed_gaussian_from_json(const boost::json::value& json) {
  try {
    const boost::json::object& object = json.as_object();
    SquashedGaussianSpec out{.observation_space = space_from_json(object.at("observation_space")).value(),
                             .action_space = space_from_json(object.at("action_space")).value(),
                             .network = network_from_json(object.at("network")).value()};
    if (troupe::Status checked = check_squashed_gaussian(out); !checked.ok()) return checked.error_ptr();
    return out;
  } catch (const std::exception& error) {
    return troupe::InvalidArgumentError(fmt::format("squashed Gaussian: {}", error.what()));
  }
}

template <class T>
void squash(std::size_t dimensions, std::span<const T> outputs, std::span<const double> noise, std::span<T> action,
            std::span<double> log_prob) {
  for (std::size_t row = 0; row < log_prob.size(); ++row) {
    double sum = 0;
    for (std::size_t k = 0; k < dimensions; ++k) {
      const T* mean = outputs.data() + row * 2 * dimensions + k;
      const std::size_t at = row * dimensions + k;
      const SquashedSample one =
          squashed_gaussian(static_cast<double>(*mean), static_cast<double>(mean[dimensions]), noise[at]);
      action[at] = static_cast<T>(one.action);
      sum += one.gaussian_log_prob - one.tanh_correction;
    }
    log_prob[row] = sum;
  }
}

template <class T>
void squash_backward(std::size_t dimensions, std::span<const T> outputs, std::span<const double> noise,
                     std::span<const T> action, std::span<const T> d_action, double d_log_prob,
                     std::span<T> d_outputs) {
  for (std::size_t at = 0; at < action.size(); ++at) {
    const std::size_t mean_at = at / dimensions * 2 * dimensions + at % dimensions, std_at = mean_at + dimensions;
    const auto a = static_cast<double>(action[at]), log_std = static_cast<double>(outputs[std_at]);
    // The log-probability's own derivatives: 2a for u, by the correction, and -1 for the clamped log_std.
    const double d_u = static_cast<double>(d_action[at]) * (1 - a * a) + d_log_prob * 2 * a;
    d_outputs[mean_at] = static_cast<T>(d_u);
    const bool clamped = log_std < kSacLogStdMin || log_std > kSacLogStdMax;  // SQG-1
    d_outputs[std_at] = clamped ? T{0} : static_cast<T>(d_u * std::exp(log_std) * noise[at] - d_log_prob);
  }
}

template void squash<float>(std::size_t, std::span<const float>, std::span<const double>, std::span<float>,
                            std::span<double>);
template void squash<double>(std::size_t, std::span<const double>, std::span<const double>, std::span<double>,
                             std::span<double>);
template void squash_backward<float>(std::size_t, std::span<const float>, std::span<const double>,
                                     std::span<const float>, std::span<const float>, double, std::span<float>);
template void squash_backward<double>(std::size_t, std::span<const double>, std::span<const double>,
                                      std::span<const double>, std::span<const double>, double, std::span<double>);

ActionScale::ActionScale(const Box& box) {
  const std::size_t dimensions = elements_of(box);
  for (std::size_t k = 0; k < dimensions; ++k) {
    low_.push_back(static_cast<float>(box.low_of(k)));
    high_.push_back(static_cast<float>(box.high_of(k)));
  }
}

void ActionScale::to_box(std::span<const float> unit, std::span<float> actions) const {
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const float low = low_[i % low_.size()], high = high_[i % high_.size()];
    actions[i] = std::clamp(low + 0.5f * (unit[i] + 1.0f) * (high - low), low, high);  // SQG-4
  }
}

void ActionScale::from_box(std::span<const float> actions, std::span<float> unit) const {
  for (std::size_t i = 0; i < unit.size(); ++i) {
    const float low = low_[i % low_.size()], high = high_[i % high_.size()];
    unit[i] = 2.0f * (actions[i] - low) / (high - low) - 1.0f;
  }
}

SquashedGaussian::SquashedGaussian(const SquashedGaussianSpec& spec, troupe::kernels::Isa isa)
    : dimensions_(checked_for_acting(spec).dimensions()),
      scale_(std::get<Box>(spec.action_space)),
      net_(make_network<float>(spec.network, {.isa = isa})),
      gsde_(dynamic_cast<const GsdeNetwork<float>*>(net_.get())),
      encoder_(ObservationEncoder::make(spec.observation_space).value()) {}

void SquashedGaussian::forward(std::span<const float> params, ConstRows obs) {
  outputs_.resize(obs.rows() * 2 * dimensions_);
  net_->forward(params, encoder_.encode(obs, encoded_), outputs_);
}

void SquashedGaussian::take_noise(std::span<const float> params, Generator& generator, const GivenNoise& given) {
  if (!given.eps.empty()) {
    if (gsde_ == nullptr) troupe::InvalidArgumentError("only state-dependent exploration takes a matrix").raise();
    gsde_->normals(params, given.eps, noise_);
  } else if (!given.normals.empty()) {
    std::ranges::copy(given.normals, noise_.begin());
  } else {
    for (double& one : noise_) one = standard_normal(generator);
  }
}

void SquashedGaussian::sample(std::span<const float> params, ConstRows obs, Generator& generator, Rows actions,
                              const GivenNoise& given) {
  forward(params, obs);
  noise_.resize(obs.rows() * dimensions_), unit_.resize(noise_.size()), log_prob_.resize(obs.rows());
  take_noise(params, generator, given);
  squash<float>(dimensions_, outputs_, noise_, unit_, log_prob_);
  for (std::size_t i = 0; i < given.added.size(); ++i)
    unit_[i] = std::clamp(unit_[i] + static_cast<float>(given.added[i]), -1.0f, 1.0f);
  scale_.to_box(unit_, actions.as<float>());
}

void SquashedGaussian::mode(std::span<const float> params, ConstRows obs, Rows actions) {
  forward(params, obs);
  unit_.resize(obs.rows() * dimensions_);
  for (std::size_t i = 0; i < unit_.size(); ++i)
    unit_[i] = std::tanh(outputs_[i / dimensions_ * 2 * dimensions_ + i % dimensions_]);
  scale_.to_box(unit_, actions.as<float>());
}

}  // namespace rl

#include "apps/rl/envs/wrappers/normalize.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace rl {
namespace {

/// NRM-4
template <class T>
[[noreturn]] void raise_not_finite(const char* what, const EnvSpecs& specs, std::span<const T> rows,
                                   std::size_t width) {
  const auto at = std::find_if(rows.begin(), rows.end(), [](T x) { return !std::isfinite(x); });
  const auto env = static_cast<std::size_t>(at - rows.begin()) / width;
  troupe::InvalidArgumentError(fmt::format("environment {} of {} gave the {} {}", env, specs.id, what, *at)).raise();
}

}  // namespace

// --------------------------------------------------------------------------------------------------- observations

troupe::Result<std::unique_ptr<NormalizeObservation>> NormalizeObservation::make(std::unique_ptr<BatchEnv> inner,
                                                                                 const NormalizeOptions& options) {
  const Space& space = inner->specs().observation_space;
  if (dtype_of(space) != DType::kFloat32)
    return troupe::InvalidArgumentError(
        fmt::format("{} shows {}: only float32 is normalized", inner->specs().id, to_string(space)));
  return std::unique_ptr<NormalizeObservation>(new NormalizeObservation(std::move(inner), options));
}

NormalizeObservation::NormalizeObservation(std::unique_ptr<BatchEnv> inner, const NormalizeOptions& options)
    : EnvWrapper(std::move(inner)), options_(options), moments_(elements_of(specs().observation_space)) {
  Box box = std::get<Box>(specs().observation_space);
  box.low = {-options.clip};
  box.high = {options.clip};
  changed_specs().observation_space = std::move(box);
}

void NormalizeObservation::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  OwnedRows obs(specs().observation_space, size());
  inner().observe(obs.view());
  learn(obs.as<float>());
}

void NormalizeObservation::reset_one(std::size_t env) {
  inner().reset_one(env);
  OwnedRows obs(specs().observation_space, size());
  inner().observe(obs.view());
  learn(obs.view().row(env).as<float>());
}

void NormalizeObservation::observe(Rows obs) const {
  inner().observe(obs);
  normalize(obs.as<float>());
}

void NormalizeObservation::step(ConstRows actions, const StepOut& out) {
  inner().step(actions, out);
  learn(out.obs.as<float>());
  normalize(out.obs.as<float>());
  const std::span<const float> last = inner().ends().final_obs.rows() > 0 ? inner().ends().final_obs.as<float>()
                                                                         : std::span<const float>();
  final_obs_.assign(last.begin(), last.end());
  normalize(final_obs_);
}

EpisodeEnds NormalizeObservation::ends() const {
  EpisodeEnds ends = inner().ends();
  ends.final_obs = ConstRows(std::span(final_obs_), elements_of(specs().observation_space));
  return ends;
}

void NormalizeObservation::learn(std::span<const float> rows) {
  const bool finite = options_.frozen
                          ? std::all_of(rows.begin(), rows.end(), [](float x) { return std::isfinite(x); })
                          : moments_.add(rows);
  if (!finite) raise_not_finite("observation", specs(), rows, elements_of(specs().observation_space));
}

void NormalizeObservation::normalize(std::span<float> rows) const {
  const RunningMoments& moments = moments_.now();
  const std::size_t width = moments.columns();
  for (std::size_t k = 0; k < width; ++k) {
    const double mean = moments.mean()[k], scale = 1 / std::sqrt(moments.variance(k) + options_.epsilon);
    for (std::size_t i = k; i < rows.size(); i += width) {
      const double value = (static_cast<double>(rows[i]) - mean) * scale;
      rows[i] = static_cast<float>(std::clamp(value, -options_.clip, options_.clip));
    }
  }
}

// --------------------------------------------------------------------------------------------------------- rewards

NormalizeReward::NormalizeReward(std::unique_ptr<BatchEnv> inner, const NormalizeOptions& options)
    : EnvWrapper(std::move(inner)), options_(options), moments_(1), returns_(size()) {}

void NormalizeReward::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  std::fill(returns_.begin(), returns_.end(), 0.0);
}

void NormalizeReward::reset_one(std::size_t env) {
  inner().reset_one(env);
  returns_.at(env) = 0;
}

void NormalizeReward::step(ConstRows actions, const StepOut& out) {
  inner().step(actions, out);
  for (std::size_t i = 0; i < returns_.size(); ++i)  // a row that begins anew may follow a fault (BE-7)
    returns_[i] = out.is_reset[i] != 0 ? 0 : returns_[i] * options_.gamma + out.reward[i];
  const bool finite = options_.frozen
                          ? std::all_of(returns_.begin(), returns_.end(), [](double x) { return std::isfinite(x); })
                          : moments_.add(std::span<const double>(returns_));
  if (!finite) raise_not_finite("discounted return", specs(), std::span<const double>(returns_), 1);
  const double scale = 1 / std::sqrt(moments_.now().variance(0) + options_.epsilon);
  for (std::size_t i = 0; i < returns_.size(); ++i) {
    out.reward[i] = std::clamp(out.reward[i] * scale, -options_.clip, options_.clip);
    if (out.terminated[i] != 0 || out.truncated[i] != 0) returns_[i] = 0;  // NRM-3
  }
}

}  // namespace rl

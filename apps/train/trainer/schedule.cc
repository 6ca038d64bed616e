#include "apps/train/trainer/schedule.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numbers>

namespace troupe::train {

namespace {

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

Status check(const ScheduleOptions& o) {
  if (!(o.base_rate > 0) || !std::isfinite(o.base_rate))
    return InvalidArgumentError("the learning rate must be above 0, it is " + number(o.base_rate));
  if (o.batch < 0 || o.reference_batch < 0 || (o.batch > 0) != (o.reference_batch > 0))
    return InvalidArgumentError("linear scaling needs both batch and reference batch above 0");
  if (o.warmup_steps < 0) return InvalidArgumentError("a negative number of warm-up steps");
  if (o.decay == Decay::kCosine && o.decay_steps <= o.warmup_steps)
    return InvalidArgumentError("the cosine must end after the warm-up");
  if (o.decay == Decay::kCosine && (o.minimum < 0 || o.minimum > scaled_rate(o)))
    return InvalidArgumentError("the cosine's minimum lies outside of 0 to the rate");
  if (o.decay == Decay::kSteps && !std::is_sorted(o.milestones.begin(), o.milestones.end()))
    return InvalidArgumentError("milestones must rise");
  return {};
}

double scaled_rate(const ScheduleOptions& o) {
  return o.batch > 0 ? o.base_rate * (o.batch / o.reference_batch) : o.base_rate;
}

double learning_rate(const ScheduleOptions& o, std::int64_t step) {
  const double full = scaled_rate(o);
  if (step < o.warmup_steps) {
    const double warm = double(o.warmup_steps);
    return o.warm_up == WarmUp::kGradual ? o.base_rate + (full - o.base_rate) * double(step) / warm
                                         : full * double(step + 1) / (warm + 1);
  }
  switch (o.decay) {
    case Decay::kConstant: return full;
    case Decay::kCosine: {
      if (step > o.decay_steps) return o.minimum;
      const double ratio = double(step - o.warmup_steps) / double(o.decay_steps - o.warmup_steps);
      return o.minimum + 0.5 * (1 + std::cos(std::numbers::pi * ratio)) * (full - o.minimum);
    }
    case Decay::kSteps: {
      const auto passed = std::upper_bound(o.milestones.begin(), o.milestones.end(), step) - o.milestones.begin();
      return full * std::pow(o.factor, double(passed));
    }
  }
  return full;
}

std::string describe(const ScheduleOptions& o) {
  std::string text = "rate " + number(scaled_rate(o)) + " from " + number(o.base_rate) + " warm-up " +
                     std::to_string(int(o.warm_up)) + "/" + std::to_string(o.warmup_steps);
  switch (o.decay) {
    case Decay::kConstant: return text + " constant";
    case Decay::kCosine: return text + " cosine to " + number(o.minimum) + " at " + std::to_string(o.decay_steps);
    case Decay::kSteps:
      text += " times " + number(o.factor) + " at";
      for (const std::int64_t milestone : o.milestones) text += " " + std::to_string(milestone);
  }
  return text;
}

std::optional<std::int64_t> cosine_end(std::string_view description) {
  const auto cosine = description.find(" cosine to "), at = description.rfind(" at ");
  if (cosine == std::string_view::npos || at == std::string_view::npos || at < cosine) return std::nullopt;
  const std::string_view number = description.substr(at + 4);
  std::int64_t end = 0;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), end);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || end < 1) return std::nullopt;
  return end;
}

}  // namespace troupe::train

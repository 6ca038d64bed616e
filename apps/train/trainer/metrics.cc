#include "apps/train/trainer/metrics.h"

#include <cmath>
#include <cstdio>
#include <limits>

namespace troupe::train {

void average(collective::Group& group, std::span<double> values) {
  if (!values.empty()) group.all_reduce(values, collective::Op::kAvg);
}

Status DivergenceWatch::observe(std::int64_t step, double loss, double gradient_norm) {
  char text[200];
  if (!std::isfinite(loss) || !std::isfinite(gradient_norm)) {
    std::snprintf(text, sizeof text, "training diverged at step %lld: loss %g, gradient norm %g",
                  static_cast<long long>(step), loss, gradient_norm);
    return DivergedError(step, loss, text);
  }
  State& s = state_;
  // Bias-corrected, so that the first loss is the first average.
  s.average = options_.smoothing * s.average + (1 - options_.smoothing) * loss;
  ++s.seen;
  const double smooth = s.average / (1 - std::pow(options_.smoothing, double(s.seen)));
  if (s.seen == 1 || smooth < s.best) s.best = smooth;
  // A loss may be negative or next to nothing: there a factor says nothing.
  const bool above =
      options_.rise > 0 && s.best > std::numeric_limits<float>::epsilon() && smooth > options_.rise * s.best;
  s.above = above ? s.above + 1 : 0;
  if (!above || s.above < options_.patience) return {};
  std::snprintf(
      text, sizeof text,
      "training diverged at step %lld: the smoothed loss is %g, more than %g times its best of %g for %lld steps",
      static_cast<long long>(step), smooth, options_.rise, s.best, static_cast<long long>(s.above));
  return DivergedError(step, loss, text);
}

}  // namespace troupe::train

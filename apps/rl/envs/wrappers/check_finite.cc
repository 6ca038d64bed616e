#include "apps/rl/envs/wrappers/check_finite.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include <fmt/format.h>

namespace rl {
namespace {

/// By the exponents' bits, as integers: a maximum of these is one that compilers vectorize, and std::isfinite is not.
template <class Bits, class T>
bool all_finite(std::span<const T> values, Bits exponent) {
  Bits most = 0;
  for (const T value : values) most = std::max<Bits>(most, std::bit_cast<Bits>(value) & exponent);
  return most != exponent;
}
bool all_finite(std::span<const float> values) { return all_finite<std::uint32_t>(values, 0x7f80'0000u); }
bool all_finite(std::span<const double> values) { return all_finite<std::uint64_t>(values, 0x7ff0'0000'0000'0000u); }

struct NotFinite {
  std::size_t row;
  double value;
};
template <class T>
std::optional<NotFinite> first_not_finite(std::span<const T> values, std::size_t width) {
  if (all_finite(values)) return std::nullopt;
  const auto at = std::ranges::find_if(values, [](T x) { return !std::isfinite(x); });
  return NotFinite{.row = static_cast<std::size_t>(at - values.begin()) / width, .value = static_cast<double>(*at)};
}
std::optional<NotFinite> first_not_finite(ConstRows rows) {
  if (rows.dtype() == DType::kFloat32) return first_not_finite(rows.as<float>(), rows.width());
  if (rows.dtype() == DType::kFloat64) return first_not_finite(rows.as<double>(), rows.width());
  return std::nullopt;
}

}  // namespace

void CheckFinite::reset(std::span<const std::uint64_t> seeds) {
  inner().reset(seeds);
  seeds_.assign(seeds.begin(), seeds.end());
  steps_ = 0, refused_ = false;
}

void CheckFinite::observe(Rows obs) const {
  inner().observe(obs);
  check(obs);
}

void CheckFinite::step(ConstRows actions, const StepOut& out) {
  inner().step(actions, out);
  ++steps_;
  refused_ = true;  // until all is looked at (CKF-2)
  if (const auto bad = first_not_finite(std::span<const double>(out.reward), 1)) refuse("reward", bad->row, bad->value);
  check_last(inner().ends());
  check(out.obs);
  refused_ = false;
}

void CheckFinite::check(ConstRows obs) const {
  if (const auto bad = first_not_finite(obs)) refuse("observation", bad->row, bad->value);
}

void CheckFinite::check_last(const EpisodeEnds& ends) const {
  if (ends.final_obs.rows() == 0) return;
  if (const auto bad = first_not_finite(ends.final_obs)) refuse("last observation", ends.env[bad->row], bad->value);
}

/// CKF-1
void CheckFinite::refuse(const char* what, std::size_t env, double value) const {
  const std::string seed = env < seeds_.size() ? std::to_string(seeds_[env]) : "unknown";
  troupe::InvalidArgumentError(
      fmt::format("environment {} of {} (seed {}) gave in step {} the {} {}: nothing can be learned from that", env,
                  specs().id, seed, steps_, what, value))
      .raise();
}

bool CheckFinite::visit(StateVisitor& visitor) {
  if (refused_ || !inner().visit(visitor)) return false;
  StateVisitor own = visitor.inside("check_finite");
  if (own.has("seeds")) {
    own.numbers("seeds", seeds_), own.one("steps", steps_);
  } else if (own.mode() == StateVisitor::Mode::kRestore) {
    seeds_.clear(), steps_ = 0;
  }
  return true;
}

}  // namespace rl

#include "apps/rl/algorithms/running_moments.h"

#include <algorithm>
#include <cmath>

#include <troupe/error.h>

namespace rl {

RunningMoments RunningMoments::with_prior(std::size_t columns, double count) {
  RunningMoments out(columns);
  out.count_ = count;
  std::fill(out.m2_.begin(), out.m2_.end(), count);
  return out;
}

template <class T>
bool RunningMoments::add(std::span<const T> rows) {
  if (columns() == 0 || rows.empty()) return true;
  if (!std::all_of(rows.begin(), rows.end(), [](T x) { return std::isfinite(x); })) return false;
  const std::size_t n = rows.size() / columns();
  RunningMoments batch(columns());
  batch.count_ = static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < columns(); ++k) batch.mean_[k] += static_cast<double>(rows[i * columns() + k]);
  for (double& mean : batch.mean_) mean /= batch.count_;
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = 0; k < columns(); ++k) {
      const double off = static_cast<double>(rows[i * columns() + k]) - batch.mean_[k];
      batch.m2_[k] += off * off;
    }
  merge(batch);
  return true;
}
template bool RunningMoments::add<float>(std::span<const float>);
template bool RunningMoments::add<double>(std::span<const double>);

void RunningMoments::merge(const RunningMoments& other) {
  const double total = count_ + other.count_;
  if (other.count_ <= 0) return;
  for (std::size_t k = 0; k < columns(); ++k) {
    const double apart = other.mean_[k] - mean_[k];
    mean_[k] += apart * (other.count_ / total);
    m2_[k] += other.m2_[k] + apart * apart * (count_ * other.count_ / total);
  }
  count_ = total;
}

std::vector<double> RunningMoments::save() const {
  std::vector<double> out{count_};
  out.insert(out.end(), mean_.begin(), mean_.end());
  out.insert(out.end(), m2_.begin(), m2_.end());
  return out;
}

RunningMoments RunningMoments::restore(std::span<const double> saved) {
  const bool sound = saved.size() % 2 == 1 && saved[0] >= 0 &&
                     std::all_of(saved.begin(), saved.end(), [](double x) { return std::isfinite(x); });
  if (!sound) troupe::SerializationError("these numbers are no moments").raise();
  const auto columns = static_cast<std::ptrdiff_t>((saved.size() - 1) / 2);
  RunningMoments out;
  out.count_ = saved[0];
  out.mean_.assign(saved.begin() + 1, saved.begin() + 1 + columns);
  out.m2_.assign(saved.begin() + 1 + columns, saved.end());
  return out;
}

}  // namespace rl

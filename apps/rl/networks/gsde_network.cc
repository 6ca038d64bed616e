#include "apps/rl/networks/gsde_network.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/linear/matmul.h"

namespace rl {
namespace {

using troupe::kernels::LinearShape;

constexpr double kLeastVariance = 1e-6;  // Stable-Baselines3's

NetworkSpec hidden_layers(NetworkSpec spec) {
  spec.outputs = 0;
  spec.gsde_first_log_std.reset();
  return spec;
}

}  // namespace

template <class T>
GsdeNetwork<T>::GsdeNetwork(const NetworkSpec& spec, const NetworkUse& use)
    : spec_(spec),
      isa_(use.isa),
      linear_(layers_of(spec).back()),
      hidden_(make_network<T>(hidden_layers(spec), use)),
      no_biases_(linear_.out),
      squared_stds_(linear_.out * linear_.in),
      d_squared_stds_(squared_stds_.size()),
      d_no_biases_(linear_.out) {}

template <class T>
void GsdeNetwork<T>::forward(std::span<const T> params, std::span<const T> x, std::span<T> y) {
  const std::size_t d = linear_.out, rows = x.size() / spec_.inputs();
  const LinearShape shape{.rows = rows, .in = linear_.in, .out = d};
  for (auto* numbers : {&phi_, &squares_}) numbers->resize(rows * linear_.in);
  for (auto* numbers : {&mean_, &variances_}) numbers->resize(rows * d);
  hidden_->forward(params, x, phi_);
  std::ranges::transform(phi_, squares_.begin(), [](T one) { return one * one; });
  std::ranges::transform(log_stds(params), squared_stds_.begin(), [](T one) { return std::exp(2 * one); });
  const T* weights = params.data();
  troupe::kernels::linear_forward<T>(isa_, shape, phi_.data(), weights + linear_.weights, weights + linear_.biases,
                                     mean_.data());
  troupe::kernels::linear_forward<T>(isa_, shape, squares_.data(), squared_stds_.data(), no_biases_.data(),
                                     variances_.data());
  for (std::size_t at = 0; at < mean_.size(); ++at) {
    T* out = y.data() + at / d * 2 * d + at % d;
    out[0] = mean_[at];
    out[d] = static_cast<T>(0.5 * std::log(static_cast<double>(variances_[at]) + kLeastVariance));
  }
}

template <class T>
void GsdeNetwork<T>::backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads, std::span<T> dx) {
  const std::size_t d = linear_.out, rows = mean_.size() / d;
  const LinearShape shape{.rows = rows, .in = linear_.in, .out = d};
  for (auto* numbers : {&d_mean_, &d_variances_}) numbers->resize(mean_.size());
  for (auto* numbers : {&d_phi_, &d_squares_}) numbers->resize(phi_.size());
  for (std::size_t at = 0; at < mean_.size(); ++at) {
    const T* slope = dy.data() + at / d * 2 * d + at % d;
    d_mean_[at] = slope[0];
    d_variances_[at] =
        static_cast<T>(0.5 * static_cast<double>(slope[d]) / (static_cast<double>(variances_[at]) + kLeastVariance));
  }
  std::vector<T> unwanted;
  std::span<T> linear = grads;
  if (grads.empty()) {  // NET-5
    unwanted.resize(spec_.parameter_count());
    linear = unwanted;
  }
  std::ranges::fill(linear.subspan(linear_.weights), T{0});
  for (auto* sums : {&d_squared_stds_, &d_no_biases_}) std::ranges::fill(*sums, T{0});
  troupe::kernels::linear_backward<T>(
      isa_, shape, phi_.data(), params.data() + linear_.weights, d_mean_.data(),
      {.dx = d_phi_.data(), .dw = linear.data() + linear_.weights, .dbias = linear.data() + linear_.biases});
  troupe::kernels::linear_backward<T>(
      isa_, shape, squares_.data(), squared_stds_.data(), d_variances_.data(),
      {.dx = d_squares_.data(), .dw = d_squared_stds_.data(), .dbias = d_no_biases_.data()});
  T* d_log_stds = linear.data() + linear_.biases + d;
  for (std::size_t i = 0; i < squared_stds_.size(); ++i) d_log_stds[i] = 2 * squared_stds_[i] * d_squared_stds_[i];
  for (std::size_t i = 0; i < d_phi_.size(); ++i) d_phi_[i] += 2 * phi_[i] * d_squares_[i];
  hidden_->backward(params, d_phi_, grads.empty() ? grads : grads.first(linear_.weights), dx);
}

template <class T>
void GsdeNetwork<T>::normals(std::span<const T> params, std::span<const double> eps, std::span<double> normals) const {
  const std::size_t d = linear_.out, units = linear_.in;
  const std::span<const T> log_std = log_stds(params);
  for (std::size_t at = 0; at < normals.size(); ++at) {
    const T* phi = phi_.data() + at / d * units;
    const T* deviations = log_std.data() + at % d * units;
    double sum = 0;
    for (std::size_t i = 0; i < units; ++i)
      sum += static_cast<double>(phi[i]) * std::exp(static_cast<double>(deviations[i])) * eps[at * units + i];
    normals[at] = sum / std::sqrt(static_cast<double>(variances_[at]) + kLeastVariance);
  }
}

template class GsdeNetwork<float>;
template class GsdeNetwork<double>;

}  // namespace rl

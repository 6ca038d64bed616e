#include "apps/rl/networks/column_network.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/linear/matmul.h"

namespace rl {
namespace {

using troupe::kernels::matmul;

// Rows that pass through the layers together. As many as products read a weight for without arranging it first; their
// activations of a layer of 256 units are 128 KiB.
constexpr std::size_t kPart = 128;
constexpr std::size_t kWholeRegisters = 32;  // parts are divided at multiples of it

}  // namespace

template <class T>
ColumnNetwork<T>::ColumnNetwork(const NetworkSpec& spec, troupe::kernels::Isa isa) : spec_(spec), isa_(isa) {
  for (LayerPlace& place : layers_of(spec)) {
    Layer layer;
    layer.place = std::move(place);
    layers_.push_back(std::move(layer));
  }
  layers_.back().activated = spec.outputs == 0;
}

/// Nearly equal ones: a last one of few rows would read all weights for them.
template <class T>
std::vector<typename ColumnNetwork<T>::Part> ColumnNetwork<T>::parts() const {
  std::vector<Part> out;
  if (rows_ == 0) return out;
  const std::size_t count = (rows_ + kPart - 1) / kPart, share = (rows_ + count - 1) / count;
  const std::size_t step = count == 1 ? rows_ : (share + kWholeRegisters - 1) / kWholeRegisters * kWholeRegisters;
  for (std::size_t begin = 0; begin < rows_; begin += step)
    out.push_back({.begin = begin, .rows = std::min(step, rows_ - begin)});
  return out;
}

template <class T>
void ColumnNetwork<T>::forward(std::span<const T> params, std::span<const T> x, std::span<T> y) {
  x_ = x;
  rows_ = x.size() / spec_.inputs();
  for (Layer& layer : layers_) layer.y.resize(rows_ * layer.place.out);
  if (rows_ == 1) return forward_row(params, y);
  for (const Part& part : parts()) forward_part(params, part, y);
}

template <class T>
void ColumnNetwork<T>::forward_row(std::span<const T> params, std::span<T> y) {
  const T* in = x_.data();
  for (Layer& layer : layers_) {
    T* out = layer.y.data();
    troupe::kernels::matvec<T>(isa_, layer.place.out, layer.place.in, params.data() + layer.place.weights, in,
                               params.data() + layer.place.biases, out);
    if (layer.activated) troupe::kernels::activation_forward<T>(isa_, spec_.activation, layer.place.out, out, out);
    in = out;
  }
  std::copy_n(in, y.size(), y.begin());
}

template <class T>
void ColumnNetwork<T>::forward_part(std::span<const T> params, const Part& part, std::span<T> y) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const auto [units, in] = std::pair(layer.place.out, layer.place.in);
    const T* biases = params.data() + layer.place.biases;
    T* out = given(i, part);
    matmul<T>(isa_, {.m = units, .n = part.rows, .k = in},
              {.data = params.data() + layer.place.weights, .stride = in},
              i == 0 ? troupe::kernels::MatmulFactor<T>{.data = x_.data() + part.begin * in, .stride = in,
                                                        .transposed = true}
                     : troupe::kernels::MatmulFactor<T>{.data = given(i - 1, part), .stride = part.rows},
              {.data = out, .stride = part.rows});
    if (layer.activated)
      troupe::kernels::unit_forward<T>(isa_, spec_.activation, {.units = units, .samples = part.rows}, biases, out);
    if (i + 1 < layers_.size()) continue;
    T* rows = y.data() + part.begin * units;
    for (std::size_t unit = 0; unit < units; ++unit) {
      const T plus = layer.activated ? T{0} : biases[unit];
      for (std::size_t row = 0; row < part.rows; ++row) rows[row * units + unit] = out[unit * part.rows + row] + plus;
    }
  }
}

template <class T>
void ColumnNetwork<T>::backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads,
                                std::span<T> dx) {
  if (rows_ == 0) std::ranges::fill(grads, T{0});
  if (!grads.empty()) {  // weights are written by the first part; biases are added to by all
    for (const Layer& layer : layers_)
      std::fill_n(grads.begin() + static_cast<std::ptrdiff_t>(layer.place.biases), layer.place.out, T{0});
  }
  for (const Part& part : parts()) {
    if (grads.empty()) input_slopes(params, part, dy, dx);
    else backward_part(params, part, dy, grads, dx);
  }
}

template <class T>
void ColumnNetwork<T>::input_slopes(std::span<const T> params, const Part& part, std::span<const T> dy,
                                    std::span<T> dx) {
  const std::size_t outputs = layers_.back().place.out, inputs = spec_.inputs();
  picked_.clear();
  for (std::size_t row = 0; row < part.rows; ++row) {
    const auto slopes = dy.subspan((part.begin + row) * outputs, outputs);
    if (std::ranges::any_of(slopes, [](T slope) { return slope != T{0}; })) picked_.push_back(row);
  }
  const std::size_t count = picked_.size();
  std::fill_n(dx.begin() + static_cast<std::ptrdiff_t>(part.begin * inputs), part.rows * inputs, T{0});
  if (count == 0) return;
  for (Layer& layer : layers_) layer.dy.resize(count * layer.place.out);
  for (std::size_t unit = 0; unit < outputs; ++unit) {
    for (std::size_t i = 0; i < count; ++i)
      layers_.back().dy[unit * count + i] = dy[(part.begin + picked_[i]) * outputs + unit];
  }
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    const auto [units, in] = std::pair(layer.place.out, layer.place.in);
    if (layer.activated) {
      picked_y_.resize(units * count);
      const T* y = given(i, part);
      for (T* to = picked_y_.data(); to != picked_y_.data() + picked_y_.size(); y += part.rows)
        for (const std::size_t row : picked_) *to++ = y[row];
      troupe::kernels::unit_backward<T>(isa_, spec_.activation, {.units = units, .samples = count}, picked_y_.data(),
                                        layer.dy.data(), nullptr);
    }
    const T* weights = params.data() + layer.place.weights;
    if (i != 0) {
      matmul<T>(isa_, {.m = in, .n = count, .k = units}, {.data = weights, .stride = in, .transposed = true},
                {.data = layer.dy.data(), .stride = count}, {.data = layers_[i - 1].dy.data(), .stride = count});
      continue;
    }
    picked_dx_.resize(count * in);
    matmul<T>(isa_, {.m = count, .n = in, .k = units}, {.data = layer.dy.data(), .stride = count, .transposed = true},
              {.data = weights, .stride = in}, {.data = picked_dx_.data(), .stride = in});
  }
  for (std::size_t i = 0; i < count; ++i)
    std::copy_n(picked_dx_.data() + i * inputs, inputs, dx.data() + (part.begin + picked_[i]) * inputs);
}

template <class T>
void ColumnNetwork<T>::backward_part(std::span<const T> params, const Part& part, std::span<const T> dy,
                                     std::span<T> grads, std::span<T> dx) {
  for (Layer& layer : layers_) layer.dy.resize(part.rows * layer.place.out);
  Layer& last = layers_.back();
  const T* rows = dy.data() + part.begin * last.place.out;
  for (std::size_t unit = 0; unit < last.place.out; ++unit) {
    for (std::size_t row = 0; row < part.rows; ++row)
      last.dy[unit * part.rows + row] = rows[row * last.place.out + unit];
  }
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    const auto [units, in] = std::pair(layer.place.out, layer.place.in);
    T* slope = layer.dy.data();
    T* dbias = grads.data() + layer.place.biases;
    if (layer.activated) {
      troupe::kernels::unit_backward<T>(isa_, spec_.activation, {.units = units, .samples = part.rows},
                                        given(i, part), slope, dbias);
    } else {
      for (std::size_t unit = 0; unit < units; ++unit)
        for (std::size_t row = 0; row < part.rows; ++row) dbias[unit] += slope[unit * part.rows + row];
    }
    matmul<T>(isa_, {.m = units, .n = in, .k = part.rows}, {.data = slope, .stride = part.rows},
              i == 0 ? troupe::kernels::MatmulFactor<T>{.data = x_.data() + part.begin * in, .stride = in}
                     : troupe::kernels::MatmulFactor<T>{.data = given(i - 1, part), .stride = part.rows,
                                                        .transposed = true},
              {.data = grads.data() + layer.place.weights, .stride = in, .accumulate = part.begin != 0});
    const T* weights = params.data() + layer.place.weights;
    if (i != 0)
      matmul<T>(isa_, {.m = in, .n = part.rows, .k = units}, {.data = weights, .stride = in, .transposed = true},
                {.data = slope, .stride = part.rows}, {.data = layers_[i - 1].dy.data(), .stride = part.rows});
    else if (!dx.empty())
      matmul<T>(isa_, {.m = part.rows, .n = in, .k = units}, {.data = slope, .stride = part.rows, .transposed = true},
                {.data = weights, .stride = in}, {.data = dx.data() + part.begin * in, .stride = in});
  }
}

template class ColumnNetwork<float>;
template class ColumnNetwork<double>;

}  // namespace rl

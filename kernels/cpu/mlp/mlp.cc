// Row-major outside, panels inside: the conversions and the choice of a version.
#include "kernels/cpu/mlp/mlp.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace troupe::kernels {
namespace {

constexpr std::size_t kAlignment = 64;

template <class T>
const detail::MlpVersion<T>& mlp_version(Isa isa) {
  if constexpr (std::is_same_v<T, float>) {
    if (isa == Isa::kAvx512 && isa_supported(isa) && detail::mlp_avx512() != nullptr) return *detail::mlp_avx512();
    if (isa != Isa::kReference && isa_supported(Isa::kAvx2) && detail::mlp_avx2() != nullptr)
      return *detail::mlp_avx2();
  }
  return detail::mlp_reference<T>();
}

// Also writes the zeros of KM-2.
template <class T>
void rows_to_panels(const T* rows, std::size_t batch, std::size_t features, std::size_t panels, T* out) {
  for (std::size_t panel = 0; panel < panels; ++panel) {
    for (std::size_t feature = 0; feature < features; ++feature) {
      T* lane = out + (panel * features + feature) * kPanel;
      for (std::size_t i = 0; i < kPanel; ++i) {
        const std::size_t sample = panel * kPanel + i;
        lane[i] = sample < batch ? rows[sample * features + feature] : T{0};
      }
    }
  }
}

template <class T>
void panels_to_rows(const T* in, std::size_t batch, std::size_t features, T* rows) {
  for (std::size_t sample = 0; sample < batch; ++sample) {
    const T* lane = in + sample / kPanel * features * kPanel + sample % kPanel;
    for (std::size_t feature = 0; feature < features; ++feature)
      rows[sample * features + feature] = lane[feature * kPanel];
  }
}

}  // namespace

template <class T>
const MlpPanels<T>& MlpTape<T>::prepare(std::size_t batch) {
  batch_ = batch;
  const std::size_t panels = (batch + kPanel - 1) / kPanel;
  if (panels > capacity_panels_ || view_.x == nullptr) {
    capacity_panels_ = std::max<std::size_t>(panels, 1);
    const std::size_t features = shape_.inputs + 2 * (shape_.hidden1 + shape_.hidden2 + shape_.outputs);
    storage_.assign(capacity_panels_ * kPanel * features + kAlignment / sizeof(T), T{0});
    auto address = reinterpret_cast<std::uintptr_t>(storage_.data());
    T* next = storage_.data() + ((kAlignment - address % kAlignment) % kAlignment) / sizeof(T);
    const auto take = [&](std::size_t count) { return std::exchange(next, next + capacity_panels_ * kPanel * count); };
    view_ = {.panels = 0,
             .x = take(shape_.inputs),
             .h1 = take(shape_.hidden1),
             .h2 = take(shape_.hidden2),
             .y = take(shape_.outputs),
             .dy = take(shape_.outputs),
             .d2 = take(shape_.hidden2),
             .d1 = take(shape_.hidden1)};
  }
  view_.panels = panels;
  return view_;
}

template <class T>
void mlp_forward(Isa isa, std::span<const T> params, std::span<const T> x, MlpTape<T>& tape, std::span<T> y) {
  const MlpShape& shape = tape.shape();
  const std::size_t batch = x.size() / shape.inputs;
  const MlpPanels<T>& panels = tape.prepare(batch);
  rows_to_panels(x.data(), batch, shape.inputs, panels.panels, panels.x);
  mlp_version<T>(isa).forward(shape, params.data(), panels);
  panels_to_rows(panels.y, batch, shape.outputs, y.data());
}

template <class T>
void mlp_backward(Isa isa, std::span<const T> params, std::span<const T> dy, MlpTape<T>& tape, std::span<T> grads) {
  const MlpShape& shape = tape.shape();
  const MlpPanels<T>& panels = tape.panels();
  rows_to_panels(dy.data(), tape.batch(), shape.outputs, panels.panels, panels.dy);
  mlp_version<T>(isa).backward(shape, params.data(), panels, grads.data());
}

template class MlpTape<float>;
template class MlpTape<double>;
template void mlp_forward<float>(Isa, std::span<const float>, std::span<const float>, MlpTape<float>&,
                                 std::span<float>);
template void mlp_forward<double>(Isa, std::span<const double>, std::span<const double>, MlpTape<double>&,
                                  std::span<double>);
template void mlp_backward<float>(Isa, std::span<const float>, std::span<const float>, MlpTape<float>&,
                                  std::span<float>);
template void mlp_backward<double>(Isa, std::span<const double>, std::span<const double>, MlpTape<double>&,
                                   std::span<double>);

}  // namespace troupe::kernels

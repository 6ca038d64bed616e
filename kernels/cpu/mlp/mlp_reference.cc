// The reference: the formulas as one reads them, for float and double. Every other version is compared with this one.
#include <cmath>

#include "kernels/cpu/mlp/mlp.h"

namespace troupe::kernels::detail {
namespace {

template <class T>
void layer_forward(std::size_t in, std::size_t out, const T* w, const T* b, const T* x, T* y, bool squash) {
  for (std::size_t o = 0; o < out; ++o) {
    for (std::size_t s = 0; s < kPanel; ++s) {
      T sum = b[o];
      for (std::size_t i = 0; i < in; ++i) sum += w[o * in + i] * x[i * kPanel + s];
      y[o * kPanel + s] = squash ? std::tanh(sum) : sum;
    }
  }
}

// dx = W^T dy * (1 - h^2), where h is the layer's input after tanh.
template <class T>
void layer_backward(std::size_t in, std::size_t out, const T* w, const T* dy, const T* h, T* dx) {
  for (std::size_t i = 0; i < in; ++i) {
    for (std::size_t s = 0; s < kPanel; ++s) {
      T sum = 0;
      for (std::size_t o = 0; o < out; ++o) sum += w[o * in + i] * dy[o * kPanel + s];
      const T activation = h[i * kPanel + s];
      dx[i * kPanel + s] = sum * (T{1} - activation * activation);
    }
  }
}

template <class T>
void weight_gradients(std::size_t in, std::size_t out, std::size_t panels, const T* dy, const T* x, T* dw, T* db) {
  for (std::size_t o = 0; o < out; ++o) {
    T bias_sum = 0;
    for (std::size_t p = 0; p < panels; ++p) {
      for (std::size_t s = 0; s < kPanel; ++s) bias_sum += dy[(p * out + o) * kPanel + s];
    }
    db[o] = bias_sum;
    for (std::size_t i = 0; i < in; ++i) {
      T sum = 0;
      for (std::size_t p = 0; p < panels; ++p) {
        for (std::size_t s = 0; s < kPanel; ++s) sum += dy[(p * out + o) * kPanel + s] * x[(p * in + i) * kPanel + s];
      }
      dw[o * in + i] = sum;
    }
  }
}

template <class T>
void forward(const MlpShape& s, const T* params, const MlpPanels<T>& t) {
  for (std::size_t p = 0; p < t.panels; ++p) {
    T* h1 = t.h1 + p * s.hidden1 * kPanel;
    T* h2 = t.h2 + p * s.hidden2 * kPanel;
    layer_forward(s.inputs, s.hidden1, params + s.w0(), params + s.b0(), t.x + p * s.inputs * kPanel, h1, true);
    layer_forward(s.hidden1, s.hidden2, params + s.w1(), params + s.b1(), h1, h2, true);
    layer_forward(s.hidden2, s.outputs, params + s.w2(), params + s.b2(), h2, t.y + p * s.outputs * kPanel, false);
  }
}

template <class T>
void backward(const MlpShape& s, const T* params, const MlpPanels<T>& t, T* grads) {
  for (std::size_t p = 0; p < t.panels; ++p) {
    const std::size_t at1 = p * s.hidden1 * kPanel;
    const std::size_t at2 = p * s.hidden2 * kPanel;
    layer_backward(s.hidden2, s.outputs, params + s.w2(), t.dy + p * s.outputs * kPanel, t.h2 + at2, t.d2 + at2);
    layer_backward(s.hidden1, s.hidden2, params + s.w1(), t.d2 + at2, t.h1 + at1, t.d1 + at1);
  }
  weight_gradients(s.hidden2, s.outputs, t.panels, t.dy, t.h2, grads + s.w2(), grads + s.b2());
  weight_gradients(s.hidden1, s.hidden2, t.panels, t.d2, t.h1, grads + s.w1(), grads + s.b1());
  weight_gradients(s.inputs, s.hidden1, t.panels, t.d1, t.x, grads + s.w0(), grads + s.b0());
}

}  // namespace

template <class T>
const MlpVersion<T>& mlp_reference() {
  static constexpr MlpVersion<T> kVersion{&forward<T>, &backward<T>};
  return kVersion;
}

template const MlpVersion<float>& mlp_reference<float>();
template const MlpVersion<double>& mlp_reference<double>();

}  // namespace troupe::kernels::detail

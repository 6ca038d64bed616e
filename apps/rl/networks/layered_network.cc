#include "apps/rl/networks/layered_network.h"

#include <algorithm>

#include "kernels/cpu/linear/matmul.h"

namespace rl {

using troupe::kernels::LinearGradients;
using troupe::kernels::LinearShape;

template <class T>
LayeredNetwork<T>::LayeredNetwork(const NetworkSpec& spec, troupe::kernels::Isa isa) : spec_(spec), isa_(isa) {
  std::size_t height = 0, width = 0, channels = 0;
  if (!spec.convolutions.empty()) height = spec.input[0], width = spec.input[1], channels = spec.input[2];
  const std::vector<LayerPlace> places = layers_of(spec);
  for (std::size_t i = 0; i < places.size(); ++i) {
    Layer layer;
    layer.place = places[i];
    layer.size = places[i].out;
    layer.activated = spec.outputs == 0 || i + 1 < places.size();
    if (i < spec.convolutions.size()) {
      const Convolution& c = spec.convolutions[i];
      layer.convolution = true;
      layer.shape = {.batch = 0, .height = height, .width = width, .channels = channels, .filters = c.filters,
                     .kernel = c.kernel, .stride = c.stride};
      height = layer.shape.out_height(), width = layer.shape.out_width(), channels = c.filters;
      layer.size = height * width * channels;
    }
    layers_.push_back(std::move(layer));
  }
}

template <class T>
void LayeredNetwork<T>::forward(std::span<const T> params, std::span<const T> x, std::span<T> y) {
  x_ = x;
  batch_ = x.size() / spec_.inputs();
  const T* in = x.data();
  for (Layer& layer : layers_) {
    const bool last = &layer == &layers_.back();
    T* out = y.data();
    if (!last || layer.activated) {
      layer.y.resize(batch_ * layer.size);
      out = layer.y.data();
    }
    const T* weights = params.data() + layer.place.weights;
    const T* biases = params.data() + layer.place.biases;
    if (layer.convolution) {
      layer.shape.batch = batch_;
      layer.patches.resize(layer.shape.patch_count());
      troupe::kernels::conv2d_forward<T>(isa_, layer.shape, in, weights, biases, layer.patches.data(), out);
    } else {
      troupe::kernels::linear_forward<T>(isa_, {.rows = batch_, .in = layer.place.in, .out = layer.place.out}, in,
                                         weights, biases, out);
    }
    if (layer.activated)
      troupe::kernels::activation_forward<T>(isa_, spec_.activation, batch_ * layer.size, out, out);
    if (last && layer.activated) std::copy_n(out, batch_ * layer.size, y.begin());
    in = out;
  }
}

template <class T>
void LayeredNetwork<T>::backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads,
                                 std::span<T> dx) {
  std::fill(grads.begin(), grads.end(), T{0});
  const T* slope = dy.data();
  for (std::size_t i = layers_.size(); i-- > 0;) {
    Layer& layer = layers_[i];
    if (layer.activated) {
      layer.dy.resize(batch_ * layer.size);
      troupe::kernels::activation_backward<T>(isa_, spec_.activation, batch_ * layer.size, layer.y.data(), slope,
                                              layer.dy.data());
      slope = layer.dy.data();
    }
    const T* in = i == 0 ? x_.data() : layers_[i - 1].y.data();
    T* into = nullptr;
    if (i != 0) {
      layers_[i - 1].dy.resize(batch_ * layers_[i - 1].size);
      into = layers_[i - 1].dy.data();
    } else if (!dx.empty()) {
      into = dx.data();
    }
    const T* weights = params.data() + layer.place.weights;
    if (grads.empty()) {  // NET-5
      if (layer.convolution) troupe::InvalidArgumentError("a convolution needs its gradients").raise();
      if (into != nullptr)
        troupe::kernels::matmul<T>(isa_, {.m = batch_, .n = layer.place.in, .k = layer.place.out},
                                   {.data = slope, .stride = layer.place.out},
                                   {.data = weights, .stride = layer.place.in},
                                   {.data = into, .stride = layer.place.in});
      slope = into;
      continue;
    }
    T* dw = grads.data() + layer.place.weights;
    T* dbias = grads.data() + layer.place.biases;
    if (layer.convolution) {
      if (into != nullptr) layer.dpatches.resize(layer.patches.size());
      troupe::kernels::conv2d_backward<T>(
          isa_, layer.shape, layer.patches.data(), weights, slope,
          {.dx = into, .dw = dw, .dbias = dbias, .dpatches = layer.dpatches.data()});
    } else {
      troupe::kernels::linear_backward<T>(isa_, {.rows = batch_, .in = layer.place.in, .out = layer.place.out}, in,
                                          weights, slope, {.dx = into, .dw = dw, .dbias = dbias});
    }
    slope = into;
  }
}

template class LayeredNetwork<float>;
template class LayeredNetwork<double>;

}  // namespace rl

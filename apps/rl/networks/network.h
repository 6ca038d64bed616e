// Network: rows of numbers in, rows of numbers out: convolutions, then hidden layers, then a linear layer. Its
// parameters are the caller's, in one flat array, so that an optimizer, a broadcast and a checkpoint see one span.
//
//   image ─▶ [convolution ─▶ activation] … ─▶ [linear ─▶ activation] … ─▶ linear ─▶ y
//
// The order of the parameters is that of the layers, each its weights and then its biases; weights are [out][in], those
// of a convolution [filters][kernel][kernel][channels].
//
// A Network keeps the activations of the last batch: one thread at a time. T is float or double (tests).
//
// Invariants
//   NET-1  backward() needs the forward() just before it, with the same parameters and rows; x must still be there.
//   NET-2  backward() writes the gradients (it does not add), and dx when it is wanted.
//   NET-3  Results depend on the specification, the instruction set and the rows, not on earlier calls.
//   NET-4  A network of two hidden layers of at most kSmallLayer tanh units runs the kernel of kernels/cpu/mlp, which
//          is faster for those; the parameters are laid out in the same way.
//   NET-5  With input_gradients and without convolutions backward() takes empty `grads`: only dx is wanted then, and
//          the products that give the parameters' gradients are not made.
//   NET-6  Other networks without convolutions run on ColumnNetwork (column_network.h), the rest on LayeredNetwork,
//          with the same layout of the parameters.
//   NET-7  Where only dx is wanted, a row whose dy is 0 has a dx of 0, and ColumnNetwork does not calculate it.
//   NET-8  With gsde_first_log_std half of the outputs are those of the last linear layer; the others come of a matrix
//          of deviations, which stands behind all layers.
//   NET-9  With a GPU the layers are those of DeviceNetwork (device_network.h), the parameters are laid out in the same
//          way, and the numbers are those of the CPU but for rounding. What fails there is thrown (CU-1).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/algorithms/rng.h"
#include "kernels/cpu/activation/activation.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cuda/cuda.h"

namespace rl {

using troupe::kernels::Activation;

inline constexpr std::size_t kSmallLayer = 128;

/// Square, without padding.
struct Convolution {
  std::size_t filters = 0, kernel = 1, stride = 1;
  friend bool operator==(const Convolution&, const Convolution&) = default;
};

struct NetworkSpec {
  std::vector<std::size_t> input = {};            // [n]; [height, width, channels] where there are convolutions
  std::vector<Convolution> convolutions = {};
  std::vector<std::size_t> hidden = {64, 64};     // units of each hidden layer
  Activation activation = Activation::kTanh;
  std::size_t outputs = 0;                        // 0: what the last hidden layer gives is the output
  double output_gain = 1;                         // of the last layer's first weights
  std::optional<double> gsde_first_log_std = {};  // the network of gsde_network.h, and its W at the start

  /// Numbers of a row of x.
  [[nodiscard]] std::size_t inputs() const;
  /// Numbers of a row of y.
  [[nodiscard]] std::size_t row_size() const { return outputs != 0 ? outputs : hidden.back(); }
  [[nodiscard]] std::size_t parameter_count() const;
  friend bool operator==(const NetworkSpec&, const NetworkSpec&) = default;
};

/// InvalidArgumentError when no network can be made of it: a layer without units, or so many that a parameter's index
/// does not fit 31 bits; a kernel that is larger than its image.
[[nodiscard]] troupe::Status check_network(const NetworkSpec& spec);
[[nodiscard]] boost::json::value to_json(const NetworkSpec& spec);
/// InvalidArgumentError for what to_json does not give, or check_network refuses.
[[nodiscard]] troupe::Result<NetworkSpec> network_from_json(const boost::json::value& json);

/// The numbers of a gsde_network.h's W; 0 in other networks.
[[nodiscard]] std::size_t deviation_count(const NetworkSpec& spec);

/// One linear layer or convolution: where its numbers are in the flat array.
struct LayerPlace {
  std::string name;                 // "conv0", "hidden0", "output"
  std::size_t weights = 0, biases = 0;
  std::size_t out = 0, in = 0;      // a convolution's `in` is kernel * kernel * channels
};
[[nodiscard]] std::vector<LayerPlace> layers_of(const NetworkSpec& spec);

/// Orthogonal weights (Saxe et al., 2014), with gain sqrt(2) but for the last layer, which has output_gain; no biases;
/// gsde_first_log_std.
/// Written to the first parameter_count() numbers of `params`.
void initialize(const NetworkSpec& spec, Generator& generator, std::span<float> params);

template <class T>
class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual const NetworkSpec& spec() const = 0;
  /// y[B][row_size()] for x[B][inputs()].
  virtual void forward(std::span<const T> params, std::span<const T> x, std::span<T> y) = 0;
  /// dy as y; dx as x, or empty.
  virtual void backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads,
                        std::span<T> dx = {}) = 0;
};

/// A GPU and its plug-in.
using Gpu = troupe::kernels::cuda::Cuda;

/// `input_gradients`: whether backward() will be asked for dx. The specification has passed check_network. With `gpu`
/// (NET-9), InvalidArgumentError, thrown, for double.
struct NetworkUse {
  troupe::kernels::Isa isa = troupe::kernels::best_isa();
  bool input_gradients = false;
  std::optional<Gpu> gpu = {};
};
template <class T>
[[nodiscard]] std::unique_ptr<Network<T>> make_network(const NetworkSpec& spec, const NetworkUse& use = {});

}  // namespace rl

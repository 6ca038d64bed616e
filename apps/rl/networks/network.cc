#include "apps/rl/networks/network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/networks/column_network.h"
#include "apps/rl/networks/device_network.h"
#include "apps/rl/networks/gsde_network.h"
#include "apps/rl/networks/layered_network.h"
#include "apps/rl/networks/small_network.h"

namespace rl {
namespace {

constexpr std::size_t kMostNumbers = std::numeric_limits<std::int32_t>::max();

// Orthonormal rows (or columns, when there are more rows than columns) by Gram-Schmidt, times the gain.
void orthogonal(std::span<float> weights, std::size_t rows, std::size_t columns, double gain, Generator& generator) {
  const bool tall = rows > columns;
  const std::size_t count = tall ? columns : rows;
  const std::size_t length = tall ? rows : columns;
  std::vector<std::vector<double>> basis;
  while (basis.size() < count) {
    std::vector<double> v(length);
    for (double& x : v) x = standard_normal(generator);
    for (const std::vector<double>& b : basis) {
      double dot = 0;
      for (std::size_t i = 0; i < length; ++i) dot += v[i] * b[i];
      for (std::size_t i = 0; i < length; ++i) v[i] -= dot * b[i];
    }
    double squares = 0;
    for (double x : v) squares += x * x;
    if (squares < 1e-12) continue;  // as good as dependent: draw again
    for (double& x : v) x /= std::sqrt(squares);
    basis.push_back(std::move(v));
  }
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      weights[r * columns + c] = static_cast<float>(gain * (tall ? basis[c][r] : basis[r][c]));
    }
  }
}

std::string_view name_of(Activation activation) { return activation == Activation::kTanh ? "tanh" : "relu"; }

template <class T>
boost::json::array numbers(const std::vector<T>& in) {
  return boost::json::array(in.begin(), in.end());
}

}  // namespace

std::size_t NetworkSpec::inputs() const {
  return std::accumulate(input.begin(), input.end(), std::size_t{1}, std::multiplies<>());
}

std::size_t NetworkSpec::parameter_count() const {
  const std::vector<LayerPlace> layers = layers_of(*this);
  return layers.empty() ? 0 : layers.back().biases + layers.back().out + deviation_count(*this);
}

std::size_t deviation_count(const NetworkSpec& spec) {
  return spec.gsde_first_log_std ? spec.hidden.back() * (spec.outputs / 2) : 0;
}

std::vector<LayerPlace> layers_of(const NetworkSpec& spec) {
  std::vector<LayerPlace> out;
  std::size_t at = 0;
  const auto add = [&](std::string name, std::size_t in, std::size_t units) {
    out.push_back({.name = std::move(name), .weights = at, .biases = at + units * in, .out = units, .in = in});
    at += units * in + units;
  };
  std::size_t in = spec.inputs();
  if (!spec.convolutions.empty()) {
    std::size_t height = spec.input[0], width = spec.input[1], channels = spec.input[2];
    for (std::size_t i = 0; i < spec.convolutions.size(); ++i) {
      const Convolution& c = spec.convolutions[i];
      add(fmt::format("conv{}", i), c.kernel * c.kernel * channels, c.filters);
      height = (height - c.kernel) / c.stride + 1, width = (width - c.kernel) / c.stride + 1, channels = c.filters;
    }
    in = height * width * channels;
  }
  for (std::size_t i = 0; i < spec.hidden.size(); ++i) {
    add(fmt::format("hidden{}", i), in, spec.hidden[i]);
    in = spec.hidden[i];
  }
  if (spec.outputs != 0) add("output", in, spec.gsde_first_log_std ? spec.outputs / 2 : spec.outputs);  // NET-8
  return out;
}

troupe::Status check_network(const NetworkSpec& spec) {
  const auto refuse = [](std::string why) { return troupe::InvalidArgumentError("network: " + std::move(why)); };
  double size = 1;
  for (const std::size_t n : spec.input) {
    if (n == 0) return refuse("its input has no numbers");
    size *= static_cast<double>(n);
  }
  if (spec.input.empty() || size > static_cast<double>(kMostNumbers))
    return refuse("its input has no shape, or is too large");
  if (!std::isfinite(spec.output_gain)) return refuse("the gain of its last layer is not finite");
  if (!spec.convolutions.empty()) {
    if (spec.input.size() != 3)
      return refuse(fmt::format("convolutions need [height, width, channels], the input has {} dimensions",
                                spec.input.size()));
    std::size_t height = spec.input[0], width = spec.input[1];
    for (const Convolution& c : spec.convolutions) {
      if (c.filters == 0 || c.filters > kMostNumbers || c.kernel == 0 || c.stride == 0)
        return refuse("a convolution needs filters, a kernel and a stride of at least 1");
      if (c.kernel > height || c.kernel > width)
        return refuse(fmt::format("a kernel of {} does not fit an image of {} x {}", c.kernel, height, width));
      height = (height - c.kernel) / c.stride + 1, width = (width - c.kernel) / c.stride + 1;
    }
  }
  if (spec.outputs == 0 && spec.hidden.empty()) return refuse("it has no layers");
  if (spec.outputs > kMostNumbers ||
      std::any_of(spec.hidden.begin(), spec.hidden.end(), [](std::size_t n) { return n == 0 || n > kMostNumbers; }))
    return refuse("a hidden layer needs at least one unit");
  if (spec.gsde_first_log_std) {
    if (spec.hidden.empty() || spec.outputs == 0 || spec.outputs % 2 != 0)
      return refuse("state-dependent exploration needs a hidden layer, and outputs in pairs");
    if (!std::isfinite(*spec.gsde_first_log_std)) return refuse("its first deviations are not finite");
  }
  double parameters = spec.gsde_first_log_std ? static_cast<double>(spec.hidden.back()) *
                                                    static_cast<double>(spec.outputs / 2)
                                              : 0.0;
  for (const LayerPlace& layer : layers_of(spec))
    parameters += static_cast<double>(layer.out) * static_cast<double>(layer.in) + static_cast<double>(layer.out);
  if (parameters > static_cast<double>(kMostNumbers))
    return refuse(fmt::format("it would have {:.3g} parameters", parameters));
  return {};
}

boost::json::value to_json(const NetworkSpec& spec) {
  boost::json::array convolutions;
  for (const Convolution& c : spec.convolutions)
    convolutions.push_back(boost::json::array{c.filters, c.kernel, c.stride});
  boost::json::object out{{"input", numbers(spec.input)},
                          {"convolutions", std::move(convolutions)},
                          {"hidden", numbers(spec.hidden)},
                          {"activation", name_of(spec.activation)},
                          {"outputs", spec.outputs},
                          {"output_gain", spec.output_gain}};
  if (spec.gsde_first_log_std) out["gsde_first_log_std"] = *spec.gsde_first_log_std;
  return out;
}

troupe::Result<NetworkSpec> network_from_json(const boost::json::value& json) {
  try {
    const boost::json::object& object = json.as_object();
    const auto sizes = [](const boost::json::value& list) {
      std::vector<std::size_t> out;
      for (const boost::json::value& n : list.as_array()) out.push_back(n.to_number<std::size_t>());
      return out;
    };
    NetworkSpec spec;
    spec.input = sizes(object.at("input"));
    for (const boost::json::value& item : object.at("convolutions").as_array()) {
      const std::vector<std::size_t> c = sizes(item);
      spec.convolutions.push_back({.filters = c.at(0), .kernel = c.at(1), .stride = c.at(2)});
    }
    spec.hidden = sizes(object.at("hidden"));
    const std::string_view activation = object.at("activation").as_string();
    if (activation != name_of(Activation::kTanh) && activation != name_of(Activation::kRelu))
      return troupe::InvalidArgumentError(
          fmt::format("network: there is no activation '{}': tanh or relu", activation));
    spec.activation = activation == "relu" ? Activation::kRelu : Activation::kTanh;
    spec.outputs = object.at("outputs").to_number<std::size_t>();
    spec.output_gain = object.at("output_gain").to_number<double>();
    if (const boost::json::value* gsde = object.if_contains("gsde_first_log_std"))
      spec.gsde_first_log_std = gsde->to_number<double>();
    if (troupe::Status checked = check_network(spec); !checked.ok()) return checked.error_ptr();
    return spec;
  } catch (const std::exception& error) {
    return troupe::InvalidArgumentError(fmt::format("network: {}", error.what()));
  }
}

void initialize(const NetworkSpec& spec, Generator& generator, std::span<float> params) {
  for (const LayerPlace& layer : layers_of(spec)) {
    const double gain = layer.name == "output" ? spec.output_gain : std::numbers::sqrt2;
    orthogonal(params.subspan(layer.weights, layer.out * layer.in), layer.out, layer.in, gain, generator);
    std::fill_n(params.begin() + static_cast<std::ptrdiff_t>(layer.biases), layer.out, 0.0f);
  }
  const std::size_t deviations = deviation_count(spec);
  std::ranges::fill(params.subspan(spec.parameter_count() - deviations, deviations),
                    static_cast<float>(spec.gsde_first_log_std.value_or(0)));
}

template <class T>
std::unique_ptr<Network<T>> make_network(const NetworkSpec& spec, const NetworkUse& use) {
  if (spec.gsde_first_log_std) return std::make_unique<GsdeNetwork<T>>(spec, use);
  if (use.gpu) {
    if constexpr (std::is_same_v<T, float>) return std::make_unique<DeviceNetwork>(spec, *use.gpu);
    else troupe::InvalidArgumentError("networks on a GPU calculate in float").raise();
  }
  if (!use.input_gradients && SmallNetwork<T>::can(spec)) return std::make_unique<SmallNetwork<T>>(spec, use.isa);
  if (ColumnNetwork<T>::can(spec)) return std::make_unique<ColumnNetwork<T>>(spec, use.isa);
  return std::make_unique<LayeredNetwork<T>>(spec, use.isa);
}

template std::unique_ptr<Network<float>> make_network<float>(const NetworkSpec&, const NetworkUse&);
template std::unique_ptr<Network<double>> make_network<double>(const NetworkSpec&, const NetworkUse&);

}  // namespace rl

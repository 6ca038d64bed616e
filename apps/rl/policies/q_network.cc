#include "apps/rl/policies/q_network.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "apps/rl/policies/observation_encoder.h"

namespace rl {
namespace {

// First values near 0, where returns are before anything is known.
constexpr double kFirstQGain = 0.1;

}  // namespace

troupe::Result<QNetworkSpec> q_network_for(const Space& observation_space, const Space& action_space,
                                           const QNetworkOptions& options) {
  const auto encoder = ObservationEncoder::make(observation_space);
  if (!encoder.ok()) return encoder.error_ptr();
  if (troupe::Status sound = check_space(action_space); !sound.ok()) return sound.error_ptr();
  const auto* choices = std::get_if<Discrete>(&action_space);
  if (choices == nullptr)
    return troupe::InvalidArgumentError(
        fmt::format("a Q-network chooses from a Discrete space, not from {}", to_string(action_space)));
  QNetworkSpec out{.observation_space = observation_space,
                   .action_space = action_space,
                   .network = {.input = encoder->shape(),
                               .convolutions = options.convolutions,
                               .hidden = options.hidden,
                               .activation = options.activation,
                               .outputs = static_cast<std::size_t>(choices->n) +
                                          (options.heads == QHeads::kDueling ? 1 : 0),
                               .output_gain = kFirstQGain},
                   .heads = options.heads};
  if (options.convolutions.empty()) out.network.input = {encoder->size()};
  if (troupe::Status checked = check_q_network(out); !checked.ok()) return checked.error_ptr();
  return out;
}

troupe::Status check_q_network(const QNetworkSpec& spec) {
  const auto encoder = ObservationEncoder::make(spec.observation_space);
  if (!encoder.ok()) return encoder.error_ptr();
  if (troupe::Status sound = check_space(spec.action_space); !sound.ok()) return sound;
  if (!std::holds_alternative<Discrete>(spec.action_space))
    return troupe::InvalidArgumentError(
        fmt::format("a Q-network chooses from a Discrete space, not from {}", to_string(spec.action_space)));
  if (troupe::Status checked = check_network(spec.network); !checked.ok()) return checked;
  if (spec.network.inputs() != encoder->size())
    return troupe::InvalidArgumentError(fmt::format("a Q-network with {} inputs for {}", spec.network.inputs(),
                                                    to_string(spec.observation_space)));
  if (spec.network.outputs != spec.actions() + (spec.heads == QHeads::kDueling ? 1 : 0))
    return troupe::InvalidArgumentError(
        fmt::format("a Q-network with {} outputs for {} actions", spec.network.outputs, spec.actions()));
  return {};
}

boost::json::value to_json(const QNetworkSpec& spec) {
  return {{"observation_space", to_json(spec.observation_space)},
          {"action_space", to_json(spec.action_space)},
          {"network", to_json(spec.network)},
          {"heads", spec.heads == QHeads::kDueling ? "dueling" : "plain"}};
}

troupe::Result<QNetworkSpec> q_network_from_json(const boost::json::value& json) {
  try {
    const boost::json::object& object = json.as_object();
    const std::string_view heads = object.at("heads").as_string();
    if (heads != "plain" && heads != "dueling")
      return troupe::InvalidArgumentError(fmt::format("Q-network: there are no heads '{}': plain or dueling", heads));
    QNetworkSpec out{.observation_space = space_from_json(object.at("observation_space")).value(),
                     .action_space = space_from_json(object.at("action_space")).value(),
                     .network = network_from_json(object.at("network")).value(),
                     .heads = heads == "dueling" ? QHeads::kDueling : QHeads::kPlain};
    if (troupe::Status checked = check_q_network(out); !checked.ok()) return checked.error_ptr();
    return out;
  } catch (const std::exception& error) {
    return troupe::InvalidArgumentError(fmt::format("Q-network: {}", error.what()));
  }
}

template <class T>
QNetwork<T>::QNetwork(const QNetworkSpec& spec, troupe::kernels::Isa isa, const std::optional<Gpu>& gpu)
    : actions_(spec.actions()), heads_(spec.heads), net_(make_network<T>(spec.network, {.isa = isa, .gpu = gpu})) {}

template <class T>
void QNetwork<T>::forward(std::span<const T> params, std::span<const T> obs, std::vector<T>& q) {
  const std::size_t rows = obs.size() / net_->spec().inputs();
  q.resize(rows * actions_);
  if (heads_ == QHeads::kPlain) return net_->forward(params, obs, q);
  outputs_.resize(rows * (actions_ + 1));
  net_->forward(params, obs, outputs_);
  for (std::size_t row = 0; row < rows; ++row) {
    const T* value = outputs_.data() + row * (actions_ + 1);
    const T* advantage = value + 1;
    const T mean = std::accumulate(advantage, advantage + actions_, T{0}) / static_cast<T>(actions_);
    for (std::size_t a = 0; a < actions_; ++a) q[row * actions_ + a] = *value + (advantage[a] - mean);
  }
}

template <class T>
void QNetwork<T>::backward(std::span<const T> params, std::span<const T> dq, std::span<T> grads) {
  if (heads_ == QHeads::kPlain) return net_->backward(params, dq, grads);
  const std::size_t rows = dq.size() / actions_;
  outputs_.resize(rows * (actions_ + 1));
  for (std::size_t row = 0; row < rows; ++row) {
    const T* slope = dq.data() + row * actions_;
    T* out = outputs_.data() + row * (actions_ + 1);
    const T sum = std::accumulate(slope, slope + actions_, T{0}), mean = sum / static_cast<T>(actions_);
    out[0] = sum;
    for (std::size_t a = 0; a < actions_; ++a) out[1 + a] = slope[a] - mean;
  }
  net_->backward(params, outputs_, grads);
}

template class QNetwork<float>;
template class QNetwork<double>;

}  // namespace rl

// QNetwork: the value of each action of a Discrete space in an observation.
//
//   plain     obs ─▶ network ─▶ Q                               as many outputs as actions
//   dueling   obs ─▶ network ─▶ V, A ─▶ Q = V + A - mean(A)      one more: V comes first (Wang et al., 2016)
//
// The two heads of a dueling network are the rows of one linear layer: one product instead of two.
//
// A QNetwork keeps the activations of the last batch: one thread at a time; parameters are the caller's. T is float or
// double (tests).
//
// QNT-1  backward() needs the forward() just before it, with the same parameters and observations (NET-1).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <boost/json.hpp>

#include <troupe/result.h>

#include "apps/rl/algorithms/rng.h"
#include "apps/rl/networks/network.h"
#include "apps/rl/spaces/space.h"

namespace rl {

enum class QHeads { kPlain, kDueling };

/// All that has to be known of a Q-network but its parameters. A plain value.
struct QNetworkSpec {
  Space observation_space = {}, action_space = {};
  NetworkSpec network = {};
  QHeads heads = QHeads::kPlain;

  /// How many there are to choose from.
  [[nodiscard]] std::size_t actions() const { return static_cast<std::size_t>(std::get<Discrete>(action_space).n); }
  friend bool operator==(const QNetworkSpec&, const QNetworkSpec&) = default;
};

struct QNetworkOptions {
  std::vector<std::size_t> hidden = {256, 256};
  Activation activation = Activation::kRelu;
  std::vector<Convolution> convolutions = {};
  QHeads heads = QHeads::kPlain;
};

/// InvalidArgumentError for an action space that is not Discrete, or what check_network says.
[[nodiscard]] troupe::Result<QNetworkSpec> q_network_for(const Space& observation_space, const Space& action_space,
                                                         const QNetworkOptions& options = {});
[[nodiscard]] troupe::Status check_q_network(const QNetworkSpec& spec);
[[nodiscard]] boost::json::value to_json(const QNetworkSpec& spec);
/// InvalidArgumentError for what to_json does not give, or check_q_network refuses.
[[nodiscard]] troupe::Result<QNetworkSpec> q_network_from_json(const boost::json::value& json);

template <class T>
class QNetwork {
 public:
  /// The specification has passed check_q_network.
  QNetwork(const QNetworkSpec& spec, troupe::kernels::Isa isa, const std::optional<Gpu>& gpu = {});

  [[nodiscard]] std::size_t actions() const { return actions_; }
  /// q[B][actions()] for obs[B][inputs]; it is resized.
  void forward(std::span<const T> params, std::span<const T> obs, std::vector<T>& q);
  /// Writes the gradients of all parameters.
  void backward(std::span<const T> params, std::span<const T> dq, std::span<T> grads);

 private:
  std::size_t actions_;
  QHeads heads_;
  std::unique_ptr<Network<T>> net_;
  std::vector<T> outputs_;  // of dueling heads, or their gradients
};

}  // namespace rl

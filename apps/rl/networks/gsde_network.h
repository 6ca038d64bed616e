// GsdeNetwork: generalized state-dependent exploration (Raffin, Kober and Stulp, "Smooth Exploration for Robotic
// Reinforcement Learning", 2021). Deviations are not outputs of their own: what is explored is a linear function of the
// last hidden layer phi, by a random matrix that stays for a while.
//
//   obs ─▶ hidden layers ─▶ phi ─┬─▶ linear ───────────────────────────▶ mean
//                                └─▶ log sqrt(phi² · exp(2 W) + 1e-6) ──▶ log_std     W[d][units]: learned
//
// With theta[d][units] drawn from N(0, exp(2 W)), mean + theta phi is normal with that deviation: losses need nothing
// else, and who plays may hold theta for many steps. A row of y is d means, then d logarithms, as squashed_gaussian.h
// wants them.
//
// Parameters: those of the hidden layers and the linear layer, then W. Promises: NET-1 to NET-3, NET-5. One thread at a
// time.
//
// GSD-1  normals() gives the numbers n for which mean + exp(log_std) n is mean + theta phi, theta = exp(W) eps.
#pragma once

#include <memory>
#include <vector>

#include "apps/rl/networks/network.h"

namespace rl {

template <class T>
class GsdeNetwork final : public Network<T> {
 public:
  GsdeNetwork(const NetworkSpec& spec, const NetworkUse& use);

  [[nodiscard]] const NetworkSpec& spec() const override { return spec_; }
  void forward(std::span<const T> params, std::span<const T> x, std::span<T> y) override;
  void backward(std::span<const T> params, std::span<const T> dy, std::span<T> grads, std::span<T> dx) override;

  /// Of the last batch, whose parameters these are; eps[B][d][units] to normals[B][d].
  void normals(std::span<const T> params, std::span<const double> eps, std::span<double> normals) const;

 private:
  [[nodiscard]] std::span<const T> log_stds(std::span<const T> params) const {
    return params.subspan(linear_.biases + linear_.out, linear_.out * linear_.in);
  }

  NetworkSpec spec_;
  troupe::kernels::Isa isa_;
  LayerPlace linear_;
  std::unique_ptr<Network<T>> hidden_;
  std::vector<T> phi_, squares_, variances_, mean_, no_biases_;     // of the last batch: phi, phi², phi² · exp(2 W)
  std::vector<T> squared_stds_;                                     // exp(2 W)
  std::vector<T> d_mean_, d_variances_, d_phi_, d_squares_, d_squared_stds_, d_no_biases_;
};

}  // namespace rl

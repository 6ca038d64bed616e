// QPolicy: acts by a Q-network: the best action, or now and then any.
//
// A plain class: no runtime. One thread at a time; parameters are the caller's.
//
// QPO-1  Of equal values the first is the best (DQ-2); what is masked is never the best, and never drawn.
// QPO-2  epsilon_greedy draws in the order of the rows: one random() a row, and one integer where that is below
//        epsilon. Same parameters, observations and generator, same actions.
#pragma once

#include <span>
#include <vector>

#include "apps/rl/policies/observation_encoder.h"
#include "apps/rl/policies/q_network.h"
#include "apps/rl/policies/seen.h"
#include "apps/rl/spaces/rows.h"

namespace rl {

class QPolicy {
 public:
  /// Throws what check_q_network says.
  explicit QPolicy(const QNetworkSpec& spec, troupe::kernels::Isa isa = troupe::kernels::best_isa());

  /// Elements of the action space.
  void greedy(std::span<const float> params, const Seen& seen, Rows actions);
  void epsilon_greedy(std::span<const float> params, const Seen& seen, double epsilon, Generator& generator,
                      Rows actions);

 private:
  /// Of one row; empty: all are.
  [[nodiscard]] std::span<const std::uint8_t> allowed(const Seen& seen, std::size_t row) const;

  std::int64_t start_;
  QNetwork<float> net_;
  ObservationEncoder encoder_;
  std::vector<float> encoded_, q_;
};

}  // namespace rl

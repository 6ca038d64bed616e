#include "apps/rl/algorithms/linked_vtrace.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <troupe/error.h>

namespace rl {

template <class T>
void linked_vtrace(const LinkedVtraceInput<T>& in, const VtraceOptions& options, std::span<T> vs,
                   std::span<T> pg_advantage) {
  const std::size_t rows = in.value.size();
  for (std::size_t i = 0; i < rows; ++i) {
    const std::int64_t next = in.next[i];
    const bool later = next > static_cast<std::int64_t>(i) && next < static_cast<std::int64_t>(rows);
    const bool ends = next == static_cast<std::int64_t>(i) && in.discount[i] == T{0};
    if (!later && !ends && next != -1)
      troupe::InvalidArgumentError(fmt::format("row {} of {} cannot be followed by row {}", i, rows, next)).raise();
  }
  std::vector<double> correction(rows, 0.0);  // target - value
  for (std::size_t i = rows; i-- > 0;) {
    const auto value = static_cast<double>(in.value[i]);
    if (in.next[i] < 0) {
      vs[i] = in.value[i], pg_advantage[i] = T{0};
      continue;
    }
    const auto next = static_cast<std::size_t>(in.next[i]);
    const auto discount = static_cast<double>(in.discount[i]), reward = static_cast<double>(in.reward[i]);
    const auto next_value = static_cast<double>(in.value[next]);
    const double ratio =
        std::exp(static_cast<double>(in.target_log_prob[i]) - static_cast<double>(in.behaviour_log_prob[i]));
    const double delta = std::min(options.rho_bar, ratio) * (reward + discount * next_value - value);
    pg_advantage[i] = static_cast<T>(std::min(options.pg_rho_bar, ratio) *
                                     (reward + discount * (next_value + correction[next]) - value));
    correction[i] = delta + discount * options.lambda * std::min(options.c_bar, ratio) * correction[next];
    vs[i] = static_cast<T>(value + correction[i]);
  }
}

template void linked_vtrace<float>(const LinkedVtraceInput<float>&, const VtraceOptions&, std::span<float>,
                                   std::span<float>);
template void linked_vtrace<double>(const LinkedVtraceInput<double>&, const VtraceOptions&, std::span<double>,
                                    std::span<double>);

}  // namespace rl

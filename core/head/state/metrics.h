// Metrics: what the processes of the cluster count and measure (troupe::metrics), for `troupe status --metrics`.
//
//   a process reports all its points (kMetrics, once a second while they change, and at its end) --> they replace its
//   former ones it dies --> what it counted stays in the sums, its gauges go
//
// Invariants
//   MET-1  The value of a counter or histogram is the sum over all processes there ever were: it never falls.
//   MET-2  At most kMetricsMax metrics are kept; a further one is dropped, and a line of the head's log says so once.
#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/head/state/events.h"

namespace troupe::head {

inline constexpr std::size_t kMetricsMax = 10'000;

class Metrics {
 public:
  void report(Turn& turn, const wire::MetricsReport& report);
  void process_died(ProcessId process);
  void node_died(std::uint32_t node);
  /// Rows of kMetrics, by name. A gauge shows what was set last. A histogram shows its sum, its count, and how many
  /// fell into each bucket.
  std::vector<wire::StateRow> rows() const;

 private:
  using Key = std::tuple<std::string, std::string, std::vector<double>>;  ///< name, kind, bounds
  using Values = std::vector<double>;
  struct Metric {
    Values dead;                          ///< sum over those that died
    std::map<ProcessId, Values> living;
    double last = 0;                      ///< gauge
  };

  std::map<Key, Metric> metrics_;
  bool told_full_ = false;
};

}  // namespace troupe::head

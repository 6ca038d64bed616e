#include "core/head/state/metrics.h"

#include <cstdio>

namespace troupe::head {
namespace {

/// How many values a point of this kind has; 0: no kind of ours.
std::size_t value_count(const wire::MetricPoint& point) {
  if (point.kind == "counter" || point.kind == "gauge") return 1;
  return point.kind == "histogram" ? point.bounds.size() + 2 : 0;  // a bucket more than bounds, and the sum
}

void add(std::vector<double>& sum, const std::vector<double>& values) {
  if (sum.size() < values.size()) sum.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

std::string number_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.12g", value);
  return text;
}

std::string bucket_text(const std::vector<double>& bounds, const std::vector<double>& values) {
  std::string text;
  for (std::size_t i = 0; i <= bounds.size(); ++i) {
    const std::string bound = i < bounds.size() ? "<=" + number_text(bounds[i]) : std::string("more");
    text += (text.empty() ? "" : ", ") + bound + ": " + number_text(values[i]);
  }
  return text;
}

}  // namespace

void Metrics::report(Turn& turn, const wire::MetricsReport& report) {
  for (const wire::MetricPoint& point : report.points) {
    if (value_count(point) == 0 || point.values.size() != value_count(point)) continue;  // not of our making
    const Key key{point.name, point.kind, point.bounds};
    if (!metrics_.contains(key) && metrics_.size() >= kMetricsMax) {
      if (!std::exchange(told_full_, true))
        turn.effects.warn("there are " + std::to_string(kMetricsMax) + " metrics: '" + point.name +
                          "' and further ones are not kept");
      continue;
    }
    Metric& metric = metrics_[key];
    Values& values = metric.living[report.process];
    if (values != point.values) metric.last = point.values[0];
    values = point.values;
  }
}

void Metrics::process_died(ProcessId process) {
  for (auto& [key, metric] : metrics_)
    if (auto gone = metric.living.extract(process); gone && std::get<1>(key) != "gauge")
      add(metric.dead, gone.mapped());
}

void Metrics::node_died(std::uint32_t node) {
  std::vector<ProcessId> gone;
  for (const auto& [key, metric] : metrics_)
    for (const auto& [process, values] : metric.living)
      if (process.node == node) gone.push_back(process);
  for (ProcessId process : gone) process_died(process);
}

std::vector<wire::StateRow> Metrics::rows() const {
  std::vector<wire::StateRow> rows;
  for (const auto& [key, metric] : metrics_) {
    const auto& [name, kind, bounds] = key;
    const bool is_gauge = kind == "gauge", is_histogram = kind == "histogram";
    if (is_gauge && metric.living.empty()) continue;
    Values sum = metric.dead;
    for (const auto& [process, values] : metric.living) add(sum, values);
    double count = 0;
    for (std::size_t i = 0; is_histogram && i + 1 < sum.size(); ++i) count += sum[i];
    rows.push_back({{"name", name},
                    {"kind", kind},
                    {"value", number_text(is_gauge ? metric.last : sum.back())},
                    {"count", is_histogram ? number_text(count) : ""},
                    {"buckets", is_histogram ? bucket_text(bounds, sum) : ""},
                    {"processes", std::to_string(metric.living.size())}});
  }
  return rows;
}

}  // namespace troupe::head

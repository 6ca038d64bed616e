#include <troupe/detail/kv_swap.h>
#include <troupe/log.h>
#include <troupe/state.h>

#include <boost/json.hpp>
#include <charconv>
#include <mutex>

#include "core/base/log.h"
#include "core/runtime/context.h"
#include "core/process/core.h"
#include "core/process/metrics_report.h"
#include "core/wire/rows.h"
#include "objectstore/client/client.h"

namespace troupe {

using worker::Core;
using worker::require_core;

namespace {

constexpr auto kHeadTimeout = std::chrono::seconds(30);
using Row = std::map<std::string, std::string>;

std::vector<Row> query(wire::StateKind kind, const ListOptions& options) {
  Core& core = require_core();
  wire::StateQuery question{kind, options.filter, options.limit, 0};
  wire::StateReply reply =
      core.requests().call<wire::StateReply>(kHead, wire::Method::kListState, question, kHeadTimeout).value();
  for (const std::string& line : wire::what_is_missing(question, reply)) {
    if (options.warnings) options.warnings->push_back(line);
    else write_log(LogLevel::kWarn, "{}", line);
  }
  return std::move(reply.rows);
}

std::string text(const Row& row, const char* key) {
  auto found = row.find(key);
  return found == row.end() ? std::string() : found->second;
}
template <class N> N number(const Row& row, const char* key) {
  const std::string value = text(row, key);
  N out{};
  std::from_chars(value.data(), value.data() + value.size(), out);
  return out;
}
std::map<std::string, double> amounts(const std::string& json) {
  std::map<std::string, double> out;
  boost::system::error_code bad;
  const boost::json::value value = boost::json::parse(json, bad);
  if (!bad && value.is_object())
    for (const auto& [name, amount] : value.as_object())
      if (amount.is_number()) out[std::string(name)] = amount.to_number<double>();
  return out;
}
std::map<std::string, std::string> texts(const std::string& json) {
  std::map<std::string, std::string> out;
  boost::system::error_code bad;
  const boost::json::value value = boost::json::parse(json, bad);
  if (!bad && value.is_object())
    for (const auto& [name, label] : value.as_object())
      if (label.is_string()) out[std::string(name)] = std::string(label.as_string());
  return out;
}

}  // namespace

std::vector<NodeRow> nodes(const ListOptions& options) {
  std::vector<NodeRow> rows;
  for (const Row& row : query(wire::StateKind::kNodes, options))
    rows.push_back({text(row, "node_id"), text(row, "address"), text(row, "state"), text(row, "is_head") == "true",
                    amounts(text(row, "resources")), amounts(text(row, "available")), texts(text(row, "labels")),
                    number<int>(row, "pid")});
  return rows;
}
std::vector<ActorRow> list_actors(const ListOptions& options) {
  std::vector<ActorRow> rows;
  for (const Row& row : query(wire::StateKind::kActors, options))
    rows.push_back({text(row, "actor_id"), text(row, "name"), text(row, "name_space"), text(row, "class_name"),
                    text(row, "state"), text(row, "node_id"), number<int>(row, "pid"), number<int>(row, "restarts")});
  return rows;
}
std::vector<TaskRow> list_tasks(const ListOptions& options) {
  std::vector<TaskRow> rows;
  for (const Row& row : query(wire::StateKind::kTasks, options))
    rows.push_back({text(row, "task_id"), text(row, "name"), text(row, "state"), text(row, "node_id"),
                    text(row, "actor_id"), text(row, "error"), number<int>(row, "pid"), number<int>(row, "attempt")});
  return rows;
}
std::vector<ObjectRow> list_objects(const ListOptions& options) {
  std::vector<ObjectRow> rows;
  for (const Row& row : query(wire::StateKind::kObjects, options))
    rows.push_back({text(row, "object_id"), text(row, "state"), text(row, "node_id"),
                    number<std::uint64_t>(row, "size"), number<int>(row, "refs")});
  return rows;
}
std::vector<WorkerRow> list_workers(const ListOptions& options) {
  std::vector<WorkerRow> rows;
  for (const Row& row : query(wire::StateKind::kWorkers, options))
    rows.push_back({text(row, "worker_id"), text(row, "node_id"), text(row, "state"), number<int>(row, "pid")});
  return rows;
}
std::vector<JobRow> list_jobs(const ListOptions& options) {
  std::vector<JobRow> rows;
  for (const Row& row : query(wire::StateKind::kJobs, options))
    rows.push_back({text(row, "job_id"), text(row, "name_space"), text(row, "state"), number<int>(row, "driver_pid")});
  return rows;
}
std::vector<PlacementGroupRow> list_placement_groups(const ListOptions& options) {
  std::vector<PlacementGroupRow> rows;
  for (const Row& row : query(wire::StateKind::kPlacementGroups, options))
    rows.push_back({text(row, "id"), text(row, "name"), text(row, "state"), text(row, "strategy")});
  return rows;
}

namespace {
std::map<std::string, double> sum_over_nodes(std::map<std::string, double> NodeRow::*which) {
  std::map<std::string, double> sum;
  for (const NodeRow& node : nodes({.filter = {{"state", "ALIVE"}}}))
    for (const auto& [name, amount] : node.*which) sum[name] += amount;
  return sum;
}
}  // namespace

std::map<std::string, double> cluster_resources() { return sum_over_nodes(&NodeRow::resources); }
std::map<std::string, double> available_resources() { return sum_over_nodes(&NodeRow::available); }

StoreUsage object_store_usage() {
  Core& core = require_core();
  core.store().flush();
  const auto usage =
      core.requests()
          .call<wire::StoreUsageReply>(core.daemon(), wire::Method::kStoreUsage, wire::Empty{}, kHeadTimeout)
          .value();
  return {usage.capacity, usage.used, usage.spilled, usage.objects};
}

namespace kv {
void put(const std::string& key, const std::string& value) {
  require_core()
      .requests()
      .call<wire::Empty>(kHead, wire::Method::kKvPut, wire::KvEntry{key, value}, kHeadTimeout)
      .value();
}
std::optional<std::string> get(const std::string& key) {
  return require_core()
      .requests()
      .call<wire::KvValue>(kHead, wire::Method::kKvGet, wire::KvKey{key}, kHeadTimeout)
      .value()
      .value;
}
bool del(const std::string& key) {
  return require_core()
      .requests()
      .call<wire::KvDeleted>(kHead, wire::Method::kKvDel, wire::KvKey{key}, kHeadTimeout)
      .value()
      .deleted;
}
std::vector<std::string> keys(const std::string& prefix) {
  return require_core()
      .requests()
      .call<wire::KvKeyList>(kHead, wire::Method::kKvKeys, wire::KvKey{prefix}, kHeadTimeout)
      .value()
      .keys;
}
}  // namespace kv

std::string detail::kv_swap(const std::string& key, const std::optional<std::string>& expected,
                            const std::string& value) {
  const auto now =
      require_core()
          .requests()
          .call<wire::KvValue>(kHead, wire::Method::kKvSwap, wire::KvSwap{key, expected, value}, kHeadTimeout)
          .value()
          .value;
  return now.value_or(std::string());
}

namespace metrics {
namespace {
/// Points since the last report go to the head, merged, once a second while there are any.
struct Pending {
  std::mutex mutex;
  std::map<std::string, wire::MetricPoint> points;
  bool scheduled = false;
};
Pending& pending() {
  static Pending instance;
  return instance;
}
}  // namespace
}  // namespace metrics

void worker::report_metrics(Core& core) {
  using metrics::pending;
  wire::MetricsReport message{core.self(), {}};
  {
    std::lock_guard lock(pending().mutex);
    if (!std::exchange(pending().scheduled, false)) return;
    for (auto& [name, point] : pending().points) message.points.push_back(point);
  }
  core.frames().notice(kHead, wire::Method::kMetrics, message);
}

namespace metrics {
namespace {
template <class F> void change(const std::string& name, const char* kind, F&& f) {
  Core& core = require_core();
  bool schedule = false;
  {
    std::lock_guard lock(pending().mutex);
    wire::MetricPoint& point = pending().points[name];
    if (!point.kind.empty() && point.kind != kind)
      throw InvalidArgumentError("the metric '" + name + "' is a " + point.kind);
    point.name = name;
    point.kind = kind;
    f(point);
    schedule = !std::exchange(pending().scheduled, true);
  }
  if (!schedule) return;
  worker::CoreLock lock(core);
  core.add_timer(exec::deadline_after(std::chrono::seconds(1)), [&core] { worker::report_metrics(core); });
}
}  // namespace

void Counter::inc(double by) {
  if (!(by >= 0)) throw InvalidArgumentError("a counter only grows");
  change(name_, "counter", [&](wire::MetricPoint& point) {
    point.values.resize(1);
    point.values[0] += by;
  });
}
void Gauge::set(double value) {
  change(name_, "gauge", [&](wire::MetricPoint& point) { point.values.assign(1, value); });
}
void Histogram::observe(double value) {
  change(name_, "histogram", [&](wire::MetricPoint& point) {
    point.bounds = bounds_;
    point.values.resize(bounds_.size() + 2);  // buckets, the last unbounded, and the sum
    std::size_t bucket = 0;
    while (bucket < bounds_.size() && value > bounds_[bucket]) ++bucket;
    ++point.values[bucket];
    point.values.back() += value;
  });
}
}  // namespace metrics

namespace log {
void debug(std::string_view text) { write_log(LogLevel::kDebug, "{}", text); }
void info(std::string_view text) { write_log(LogLevel::kInfo, "{}", text); }
void warn(std::string_view text) { write_log(LogLevel::kWarn, "{}", text); }
void error(std::string_view text) { write_log(LogLevel::kError, "{}", text); }
}  // namespace log

}  // namespace troupe

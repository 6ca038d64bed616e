// What the cluster holds, the key-value store, and metrics. Lists are the same rows as `troupe list ... --json`.
//
// Every call asks the head or the node daemon and suspends the caller; any thread of a driver or worker. Errors are
// thrown: InvalidArgumentError for an unknown filter field, GetTimeoutError when the head does not answer.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <troupe/duration.h>

namespace troupe {

/// filter: rows whose named field has exactly this text; limit: at most so many rows. A process lists at most 10,000
/// tasks and as many objects. What is missing in the rows beyond the limit (that, or a node that did not answer) is
/// said in `warnings`, a line each; where there is none, in the log.
struct ListOptions {
  std::map<std::string, std::string> filter = {};
  int limit = kNoLimit;
  std::vector<std::string>* warnings = nullptr;
};

struct NodeRow {
  std::string node_id, address, state;
  bool is_head = false;
  std::map<std::string, double> resources, available;
  std::map<std::string, std::string> labels;
  int pid = 0;
};
struct ActorRow { std::string actor_id, name, name_space, class_name, state, node_id; int pid = 0, restarts = 0; };
struct TaskRow { std::string task_id, name, state, node_id, actor_id, error; int pid = 0, attempt = 0; };
struct ObjectRow { std::string object_id, state, node_id; std::uint64_t size = 0; int refs = 0; };
struct WorkerRow { std::string worker_id, node_id, state; int pid = 0; };
struct JobRow { std::string job_id, name_space, state; int driver_pid = 0; };
struct PlacementGroupRow { std::string id, name, state, strategy; };

std::vector<NodeRow> nodes(const ListOptions& options = {});
std::vector<ActorRow> list_actors(const ListOptions& options = {});
std::vector<TaskRow> list_tasks(const ListOptions& options = {});
std::vector<ObjectRow> list_objects(const ListOptions& options = {});
std::vector<WorkerRow> list_workers(const ListOptions& options = {});
std::vector<JobRow> list_jobs(const ListOptions& options = {});
std::vector<PlacementGroupRow> list_placement_groups(const ListOptions& options = {});

std::map<std::string, double> cluster_resources();
std::map<std::string, double> available_resources();

struct StoreUsage { std::uint64_t capacity = 0, used = 0, spilled = 0, objects = 0; };
/// Of this node's object store; bytes.
StoreUsage object_store_usage();

namespace kv {
void put(const std::string& key, const std::string& value);
std::optional<std::string> get(const std::string& key);
bool del(const std::string& key);
std::vector<std::string> keys(const std::string& prefix);
}  // namespace kv

namespace metrics {
/// Only grows.
class Counter {
 public:
  explicit Counter(std::string name) : name_(std::move(name)) {}
  void inc(double by = 1);
 private:
  std::string name_;
};
class Gauge {
 public:
  explicit Gauge(std::string name) : name_(std::move(name)) {}
  void set(double value);
 private:
  std::string name_;
};
class Histogram {
 public:
  Histogram(std::string name, std::vector<double> bounds) : name_(std::move(name)), bounds_(std::move(bounds)) {}
  void observe(double value);
 private:
  std::string name_;
  std::vector<double> bounds_;
};
}  // namespace metrics

}  // namespace troupe

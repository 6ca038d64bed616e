// Clusters for tests: real processes on this machine, a head, a daemon and workers for each node, the driver on node 0.
//
//   int main(int argc, char** argv) {
//     return troupe::testing::run(argc, argv, {.nodes = {{.cpus = 2}, {.cpus = 2, .labels = {{"zone", "b"}}}}},
//                                 [](troupe::testing::Cluster& c) { ...; return 0; });
//   }
//
// The same executable is head, daemon, launcher and worker, as with troupe::run. When run returns, or the driver dies,
// nothing of the cluster is left.
//
// Thread rule: a Cluster and its Nodes belong to the driver's thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <troupe/duration.h>
#include <troupe/options.h>

namespace troupe::testing {

/// Unset numbers: 1 CPU, no GPU, 256 MiB of object store.
struct NodeSpec {
  double cpus = kUnset;
  double gpus = kUnset;
  std::uint64_t memory = 0;
  std::map<std::string, double> resources = {};
  std::map<std::string, std::string> labels = {};
  std::uint64_t object_store_memory = 0;
  std::string spill_dir = {};            ///< objects are not spilled to disk: InvalidArgumentError
};

struct ClusterSpec {
  std::vector<NodeSpec> nodes = {NodeSpec{}};
};

class Cluster;

class Node {
 public:
  /// As in NodeRow::node_id.
  std::string id() const;
  /// SIGKILL to the daemon and everything that it started, as if the machine had lost its power: none of them sees
  /// another's end. Returns when they are gone.
  void kill();
  /// Graceful: the daemon ends its processes and leaves.
  void stop();
  /// SIGSTOP and SIGCONT to all of it.
  void freeze();
  void thaw();
  /// The daemon, and after it everything that it started, as far as alive. Killed in this order, none of them sees
  /// another's end.
  std::vector<int> pids() const;

 private:
  friend class Cluster;
  Node(Cluster& cluster, std::size_t index) : cluster_(cluster), index_(index) {}
  Cluster& cluster_;
  std::size_t index_;
};

class Cluster {
 public:
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Returns when it has joined. Indices go on after the first ones, also over nodes that are gone.
  Node& add_node(const NodeSpec& spec);
  /// InvalidArgumentError when there never was such a node.
  Node& node(std::size_t index);
  std::size_t size() const;

  /// SIGKILL. Tasks, and calls of actors, go on; what asks the head (creations, names, kv, lists) waits until it is
  /// back. Nodes look for it for 30 s and then end.
  void kill_head();
  /// The same head, at the same address: it knows everything that it had answered, and nodes go on with it. Kills first
  /// if it runs. RuntimeEnvError when it had given up its journal (at 256 MiB).
  void restart_head();
  /// Waits until exactly n nodes are alive; false when the time is over.
  bool wait_for_nodes(std::size_t n, Duration timeout);

 private:
  friend class Node;
  friend int run(int, char**, const ClusterSpec&, const std::function<int(Cluster&)>&);
  struct Impl;
  explicit Cluster(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// Starts the cluster, runs the function as its driver, ends the cluster. The function's value, as with troupe::run.
int run(int argc, char** argv, const ClusterSpec& spec, const std::function<int(Cluster&)>& driver);

}  // namespace troupe::testing

#include <troupe/testing.h>

#include <signal.h>

#include <cstdio>
#include <cstdlib>

#include "core/node/roles/roles.h"
#include "core/node/launcher/spawn.h"
#include "core/node/roles/test_cluster.h"
#include <troupe/context.h>
#include <troupe/run.h>
#include <troupe/state.h>

namespace troupe::testing {

struct Cluster::Impl { std::unique_ptr<node::TestCluster> cluster; };

namespace {

node::NodeOptions options_of(const NodeSpec& spec) {
  if (!spec.spill_dir.empty())
    throw InvalidArgumentError("a node's spill_dir: objects are not written to disk, give it more object_store_memory");
  node::NodeOptions options;
  options.cpus = spec.cpus;
  options.gpus = spec.gpus;
  options.memory = spec.memory;
  options.resources = spec.resources;
  options.labels = spec.labels;
  options.object_store_memory = spec.object_store_memory;
  return options;
}

}  // namespace

std::string Node::id() const { return cluster_.impl_->cluster->node(index_).node_id; }
void Node::kill() { cluster_.impl_->cluster->kill_node(index_); }
void Node::stop() { cluster_.impl_->cluster->stop_node(index_); }
void Node::freeze() { cluster_.impl_->cluster->signal_node(index_, SIGSTOP); }
void Node::thaw() { cluster_.impl_->cluster->signal_node(index_, SIGCONT); }
std::vector<int> Node::pids() const { return cluster_.impl_->cluster->pids(index_); }

Cluster::Cluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  for (std::size_t i = 0; i < impl_->cluster->size(); ++i) nodes_.push_back(std::unique_ptr<Node>(new Node(*this, i)));
}
Cluster::~Cluster() = default;

Node& Cluster::add_node(const NodeSpec& spec) {
  const std::size_t index = impl_->cluster->add_node(options_of(spec)).value();
  nodes_.push_back(std::unique_ptr<Node>(new Node(*this, index)));
  return *nodes_.back();
}

Node& Cluster::node(std::size_t index) {
  if (index >= nodes_.size()) throw InvalidArgumentError("the cluster never had a node " + std::to_string(index));
  return *nodes_[index];
}

std::size_t Cluster::size() const { return nodes_.size(); }
void Cluster::kill_head() { impl_->cluster->kill_head(); }
void Cluster::restart_head() { impl_->cluster->restart_head().value(); }

bool Cluster::wait_for_nodes(std::size_t n, Duration timeout) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    if (nodes({.filter = {{"state", "ALIVE"}}}).size() == n) return true;
    if (timeout != kForever && std::chrono::steady_clock::now() - start >= timeout) return false;
    // asked again: the head tells processes of a node's death, and of no other change
    sleep_for(std::chrono::milliseconds(20));
  }
}

int run(int argc, char** argv, const ClusterSpec& spec, const std::function<int(Cluster&)>& driver) {
  if (node::is_internal_role()) return detail::run_program(argc, argv, {}, [](std::span<char* const>) { return 1; });
  std::vector<node::NodeOptions> nodes;
  for (const NodeSpec& node : spec.nodes) nodes.push_back(options_of(node));
  Result<std::unique_ptr<node::TestCluster>> started = node::TestCluster::start(nodes);
  if (!started.ok()) {
    std::fprintf(stderr, "troupe: the test cluster did not start: %s\n", started.error().what());
    return 1;
  }
  auto impl = std::make_unique<Cluster::Impl>();
  impl->cluster = std::move(*started);
  const std::string socket = impl->cluster->node(0).socket_path;
  Cluster cluster(std::move(impl));
  ::unsetenv("TROUPE_ADDRESS");  // this cluster, whatever the environment says
  return detail::run_program(argc, argv, {.address = socket}, [&](std::span<char* const>) { return driver(cluster); });
}

}  // namespace troupe::testing

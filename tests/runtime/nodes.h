// What the programs on clusters of several nodes share: the cluster, its nodes by number, and options that name a node.
//
//   int main(int argc, char** argv) { return rt::run_nodes(argc, argv, {.nodes = {{}, {}}}, {{"a promise", [] { ...
//   }}}); }
//
// Promises that kill a node add one for those after them (rt::fresh_node).
//
// Thread rule: the driver's thread.
#pragma once
#include <troupe/testing.h>

#include "check.h"

namespace rt {

inline troupe::testing::Cluster* cluster = nullptr;

inline int run_nodes(int argc, char** argv, const troupe::testing::ClusterSpec& spec,
                     const std::vector<Promise>& promises, int seconds_each = 60) {
  return troupe::testing::run(argc, argv, spec, [&](troupe::testing::Cluster& c) {
    cluster = &c;
    return run_promises(std::span<char* const>(argv, std::size_t(argc)), promises, seconds_each);
  });
}

inline std::string here() { return troupe::runtime_context().node_id; }
inline troupe::Scheduling on(const troupe::testing::Node& node) { return troupe::NodeAffinity{.node_id = node.id()}; }
/// The node while it lives, any other after it.
inline troupe::Scheduling near(const troupe::testing::Node& node) {
  return troupe::NodeAffinity{.node_id = node.id(), .soft = true};
}
/// A node that has run a task already.
inline troupe::testing::Node& fresh_node(double cpus = 2) {
  troupe::testing::Node& node = cluster->add_node({.cpus = cpus});
  CHECK(eventually([&] {
    auto there = troupe::task<&here>.options({.scheduling = on(node)}).remote();
    return troupe::try_get(there, {.timeout = std::chrono::seconds(40)}).ok();
  }));
  return node;
}
inline std::size_t nodes_alive() { return troupe::nodes({.filter = {{"state", "ALIVE"}}}).size(); }

/// Waits for the object's owner to know it, without bringing its memory here.
template <class T>
bool ready_elsewhere(const troupe::ObjectRef<T>& ref) {
  return troupe::wait(std::vector{ref}, {.timeout = std::chrono::seconds(40), .fetch_local = false}).ready.size() == 1;
}

/// An answer of an actor that may be on its way back.
template <class F>
auto answer(F call, double seconds = 40) {
  for (const double end = now() + seconds;; std::this_thread::sleep_for(std::chrono::milliseconds(5))) {
    try {
      return troupe::get(call(), {.timeout = std::chrono::seconds(40)});
    } catch (const troupe::ActorUnavailableError&) {
      if (now() > end) throw;
    } catch (const troupe::ActorDiedError& e) {
      if (e.outcome() != troupe::Outcome::kUnknown || now() > end) throw;
    }
  }
}

}  // namespace rt

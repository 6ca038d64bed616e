// Where to run: pure functions of a cluster view and a request. The caller debits the view for what it then sends.
//
// Assumptions
//   - The view is a few tens of milliseconds old. A wrong guess costs one more hop or a wait, never a wrong result: the
//     daemon of the chosen node has the last word.
//   - Totals and labels of a node do not change while it lives; nodes come and go.
//   - A node's load is its critical resource: the largest used/total over the resources that it has.
//
// Algorithms
//   Hybrid    The preferred node is the one with the most argument bytes (from kLocalityMin up), else `here`.
//             Of the nodes where the request fits now: the first whose load with the request is <= 50 %, in the order
//             preferred, here, ascending number (pack); when all are above, the least loaded, same order on ties
//             (spread).
//   Spread    Of the nodes where it fits now, the least loaded; on ties the next number after `last_spread`, going
//             round.
//             A request that takes nothing goes round all nodes, whatever their load.
//   Affinity  That node or nothing; busy: wait. Soft: the same while that node lives and is large enough, else hybrid.
//   Labels    Only nodes whose labels match all, whatever the scheduling (also with a soft affinity).
//
// What can never hold
//   kInfeasible: a hard affinity to a node that is unknown, dead, lacks a label or is too small (totals do not change;
//   the lease queue waits a moment before it refuses one that is unknown, or passes it over, LQ-9);
//   a selector that no node of the cluster satisfies now; a bundle (placement groups are later work).
//   kWait with a warning: a request larger than any node's total: nodes may join.
//   With no node at all in the view (start of a cluster) everything but a hard affinity waits, without a warning.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/cluster_view.h"

namespace troupe::sched {

inline constexpr double kPackLimit = 0.5;
inline constexpr std::uint64_t kLocalityMin = 128 * 1024;

struct Request {
  ResourceSet resources;
  Scheduling scheduling;
  LabelSelector labels;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> bytes_by_node;
};

struct Decision {
  enum class Kind : std::uint8_t {
    kHere,        // on the node of the one who asks
    kNode,        // on `node`
    kWait,        // nowhere now; ask again when the view changes
    kInfeasible,  // never: fail with InfeasibleError(reason)
  };
  Kind kind = Kind::kWait;
  std::uint32_t node = 0;  // kHere, kNode
  std::string reason;      // kInfeasible: why. kWait: a warning when no node is large enough, else empty
  bool unknown_node = false;  // decided so because the view does not name the wanted node: news may be on the way
};

/// Who asks.
struct Asker {
  std::uint32_t here = 0;         // its node; 0: none (the head)
  std::uint32_t last_spread = 0;  // the node that Spread chose last; the caller remembers it
};

Decision decide(const ClusterView& view, const Request& request, const Asker& asker);

/// Does one label value match one pattern: "v", "!v", "in(a,b)", "!in(a,b)"? No label at all: only the negated forms.
bool label_matches(const std::string* value, const std::string& pattern);
bool labels_match(const std::map<std::string, std::string>& labels, const LabelSelector& selector);
/// Why a selector is malformed ("in(a" without its end, an empty key), or nothing.
std::optional<std::string> selector_problem(const LabelSelector& selector);

/// The largest used/total over the node's resources, with `extra` taken as well; 0 for a node without resources.
double load_with(const NodeView& node, const ResourceSet& extra);

}  // namespace troupe::sched

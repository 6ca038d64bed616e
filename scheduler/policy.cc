#include "scheduler/policy.h"

#include <algorithm>
#include <string_view>

namespace troupe::sched {
namespace {

Decision chosen(std::uint32_t node, const Asker& asker) {
  return {.kind = node == asker.here ? Decision::Kind::kHere : Decision::Kind::kNode, .node = node, .reason = {}};
}
Decision wait(std::string warning = {}) {
  return {.kind = Decision::Kind::kWait, .node = 0, .reason = std::move(warning)};
}
Decision infeasible(std::string reason) {
  return {.kind = Decision::Kind::kInfeasible, .node = 0, .reason = std::move(reason)};
}

std::string selector_text(const LabelSelector& selector) {
  std::string text;
  for (const auto& [key, pattern] : selector.match) text += (text.empty() ? "" : ", ") + key + ": " + pattern;
  return "{" + text + "}";
}

/// Nodes that could ever run it, in ascending order, or the decision that says why there is none.
struct Candidates {
  std::vector<const NodeView*> nodes;
  std::optional<Decision> none;
};

Candidates candidates(const ClusterView& view, const Request& request) {
  Candidates result;
  if (view.nodes().empty()) {
    result.none = wait();
    return result;
  }
  bool label_found = false;
  for (const NodeView& node : view.nodes()) {
    if (!labels_match(node.labels, request.labels)) continue;
    label_found = true;
    if (request.resources.fits(node.total)) result.nodes.push_back(&node);
  }
  if (!label_found) {
    result.none = infeasible("no node of the cluster satisfies the label selector " + selector_text(request.labels));
  } else if (result.nodes.empty()) {
    std::string where = request.labels.match.empty() ? "" : " that satisfies " + selector_text(request.labels);
    result.none = wait("the request " + request.resources.to_string() + " is larger than any node" + where +
                       " of the cluster; it waits until such a node joins");
  }
  return result;
}

std::uint32_t preferred_node(const Request& request, const Asker& asker) {
  std::uint32_t best = asker.here;
  std::uint64_t most = kLocalityMin - 1;
  for (const auto& [node, bytes] : request.bytes_by_node) {
    if (bytes > most || (bytes == most && node == asker.here)) {
      most = bytes;
      best = node;
    }
  }
  return best;
}

Decision hybrid(const std::vector<const NodeView*>& nodes, const Request& request, const Asker& asker) {
  const std::uint32_t preferred = preferred_node(request, asker);
  auto rank = [&](const NodeView& node) { return node.node == preferred ? 0 : node.node == asker.here ? 1 : 2; };
  const NodeView* best = nullptr;
  double best_score = 0;
  for (const NodeView* node : nodes) {
    if (!request.resources.fits(node->available)) continue;
    double load = load_with(*node, request.resources);
    double score = load <= kPackLimit ? 0 : load;
    if (!best || score < best_score || (score == best_score && rank(*node) < rank(*best))) {
      best = node;
      best_score = score;
    }
  }
  return best ? chosen(best->node, asker) : wait();
}

Decision spread(const std::vector<const NodeView*>& nodes, const Request& request, const Asker& asker) {
  const NodeView* best = nullptr;
  double best_load = 0;
  bool best_after = false;
  for (const NodeView* node : nodes) {
    if (!request.resources.fits(node->available)) continue;
    // What takes nothing changes no load: by load alone all of it would land on one node.
    double load = request.resources.empty() ? 0 : load_with(*node, request.resources);
    bool after = node->node > asker.last_spread;
    if (!best || load < best_load || (load == best_load && after && !best_after)) {
      best = node;
      best_load = load;
      best_after = after;
    }
  }
  return best ? chosen(best->node, asker) : wait();
}

/// What stands in the way of this node ever running it, or empty.
std::string never_on(const NodeView& node, const Request& request) {
  if (!labels_match(node.labels, request.labels)) return "its labels do not satisfy " + selector_text(request.labels);
  if (!request.resources.fits(node.total))
    return "it has only " + node.total.to_string() + " and the request is " + request.resources.to_string();
  return {};
}

Decision affinity(const ClusterView& view, const Request& request, const NodeAffinity& wanted, const Asker& asker) {
  const NodeView* node = view.find_id(wanted.node_id);
  std::string why = node ? never_on(*node, request) : "no living node has this id";
  if (why.empty()) return request.resources.fits(node->available) ? chosen(node->node, asker) : wait();
  if (!wanted.soft) {
    Decision never = infeasible("hard affinity to node " + wanted.node_id + " can never hold: " + why);
    never.unknown_node = node == nullptr;
    return never;
  }
  Candidates able = candidates(view, request);
  Decision other = able.none ? *able.none : hybrid(able.nodes, request, asker);
  other.unknown_node = node == nullptr;
  return other;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool in_list(std::string_view list, std::string_view value) {
  while (true) {
    std::size_t comma = list.find(',');
    if (trimmed(list.substr(0, comma)) == value) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

double load_with(const NodeView& node, const ResourceSet& extra) {
  double load = 0;
  auto consider = [&](Fixed total, Fixed available, Fixed more) {
    if (total > 0) load = std::max(load, static_cast<double>(total - available + more) / static_cast<double>(total));
  };
  consider(node.total.cpu, node.available.cpu, extra.cpu);
  consider(node.total.gpu, node.available.gpu, extra.gpu);
  consider(node.total.memory, node.available.memory, extra.memory);
  for (const auto& [name, total] : node.total.custom)
    consider(total, node.available.custom_amount(name), extra.custom_amount(name));
  return load;
}

bool label_matches(const std::string* value, const std::string& pattern) {
  std::string_view rest = pattern;
  bool negated = rest.starts_with('!');
  if (negated) rest.remove_prefix(1);
  bool holds = false;
  if (value && rest.starts_with("in(") && rest.ends_with(')')) holds = in_list(rest.substr(3, rest.size() - 4), *value);
  else if (value) holds = rest == *value;
  return holds != negated;
}

bool labels_match(const std::map<std::string, std::string>& labels, const LabelSelector& selector) {
  return std::all_of(selector.match.begin(), selector.match.end(), [&](const auto& entry) {
    auto at = labels.find(entry.first);
    return label_matches(at == labels.end() ? nullptr : &at->second, entry.second);
  });
}

std::optional<std::string> selector_problem(const LabelSelector& selector) {
  for (const auto& [key, pattern] : selector.match) {
    if (key.empty()) return std::string("a label selector has an empty key");
    std::string_view rest = pattern;
    if (rest.starts_with('!')) rest.remove_prefix(1);
    if (rest.starts_with("in(") && !rest.ends_with(')'))
      return "label selector " + key + ": \"" + pattern + "\" lacks its closing parenthesis";
  }
  return std::nullopt;
}

Decision decide(const ClusterView& view, const Request& request, const Asker& asker) {
  if (std::holds_alternative<Bundle>(request.scheduling)) return infeasible("placement groups are not available yet");
  if (const auto* wanted = std::get_if<NodeAffinity>(&request.scheduling))
    return affinity(view, request, *wanted, asker);
  Candidates able = candidates(view, request);
  if (able.none) return *able.none;
  if (std::holds_alternative<Spread>(request.scheduling)) return spread(able.nodes, request, asker);
  return hybrid(able.nodes, request, asker);
}

}  // namespace troupe::sched

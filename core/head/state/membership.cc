#include "core/head/state/membership.h"

#include <algorithm>

#include "core/head/state/unique_text.h"

namespace troupe::head {
namespace {
/// Pings share the head's token space with its queries: these are told apart by the top bit, and need no bookkeeping.
constexpr std::uint64_t kPingTokenBit = std::uint64_t{1} << 63;
constexpr Duration kProbePause = std::chrono::milliseconds(50);
constexpr Duration kDoubtPause = std::chrono::milliseconds(500);  // until a quarrel is looked at again
}  // namespace

bool Membership::register_node(Turn& turn, LinkId link, Caller caller, const wire::RegisterNode& request,
                               Random& random) {
  if (!request.cluster_id.empty() && request.cluster_id != options_.cluster_id) {
    turn.effects.respond(
        caller.process, caller.token,
        error_record(ErrorCode::kUnauthenticated, "this is cluster " + options_.cluster_id +
                                                      ", and the node belongs to cluster " + request.cluster_id),
        link);
    turn.effects.add(CloseLink{link});
    return false;
  }
  if (request.info.node != 0) return come_back(turn, link, caller, request) && false;

  Node node;
  node.info = request.info;
  node.info.node = ++last_number_;
  node.info.node_id = unique_text(random);
  node.info.state = "ALIVE";
  if (node.info.available.empty()) node.info.available = node.info.resources;
  node.link = link;
  node.reported = sched::ResourceSet::from_map(node.info.available);
  const std::uint32_t number = node.info.node;
  view_.put(sched::NodeView::from(node.info));
  Node& kept = nodes_.emplace(number, std::move(node)).first->second;
  if (!ping_at_) ping_at_ = turn.now + options_.ping_every;
  changed_.insert(number);
  greet(turn, link, caller, kept);
  ping(turn, number, kept, true);
  push_now(turn, number);
  turn.effects.log("node " + std::to_string(number) + " (" + kept.info.node_id +
                   ") joined: " + sched::ResourceSet::from_map(kept.info.resources).to_string());
  return true;
}

bool Membership::come_back(Turn& turn, LinkId link, Caller caller, const wire::RegisterNode& request) {
  auto at = nodes_.find(request.info.node);
  if (at == nodes_.end() || at->second.info.node_id != request.info.node_id) {
    std::string text =
        "node " + request.info.node_id + " was declared dead, or belongs to an earlier head: it must end and join anew";
    turn.effects.respond(caller.process, caller.token, error_record(ErrorCode::kUnauthenticated, text), link);
    turn.effects.add(CloseLink{link});
    turn.effects.warn("refused: " + text);
    return false;
  }
  Node& node = at->second;
  if (node.link != 0 && node.link != link) turn.effects.add(CloseLink{node.link});
  node.link = link;
  suspects_.erase(at->first);
  node.pings_unanswered = 0;
  greet(turn, link, caller, node);
  turn.effects.log("node " + std::to_string(at->first) + " is back");
  return true;
}

void Membership::greet(Turn& turn, LinkId link, Caller caller, const Node& node) {
  wire::RegisterNodeReply reply;
  reply.node = node.info.node;
  reply.node_id = node.info.node_id;
  reply.cluster_id = options_.cluster_id;
  reply.head_epoch = options_.epoch;
  turn.effects.respond(caller.process, caller.token, std::move(reply), link);
  // Bound only after the reply: what waited for the node must not overtake the answer that tells it its number.
  turn.effects.add(BindLink{link, node.info.node});
  turn.effects.notice(daemon_of(node.info.node), wire::Method::kClusterView, full_view());
}

/// MB-7. While there are nodes the head looks at them every ping_every at least.
void Membership::forgive_own_pause(Time now) {
  const Duration paused = now - std::exchange(looked_at_, now);
  if (paused < options_.ping_every + options_.ping_every / 2) return;
  for (auto& [number, suspect] : suspects_)
    if (!suspect.nobody_there) suspect.until += paused;
  for (auto& [pair, until] : quarrels_) until += paused;
}

void Membership::on_link_closed(Turn& turn, LinkId link) {
  forgive_own_pause(turn.now);
  for (auto& [number, node] : nodes_) {
    if (node.link != link) continue;
    node.link = 0;
    suspects_[number] = {turn.now + (is_served(node) ? options_.served_grace : options_.link_grace)};
    if (!is_served(node) && !node.info.address.empty()) turn.effects.add(ProbeNode{number, node.info.address});
    return;
  }
}

void Membership::on_nobody_listens(Turn& turn, std::uint32_t number) {
  auto suspect = suspects_.find(number);
  if (suspect == suspects_.end()) return;  // it is back, or dead already
  suspect->second.until = turn.now;
  suspect->second.nobody_there = true;
}

void Membership::on_probe_broken(Turn& turn, std::uint32_t number) {
  if (auto suspect = suspects_.find(number); suspect != suspects_.end())
    suspect->second.probe_at = turn.now + kProbePause;
}

// ------------------------------------------------------------------------------------------------------------ quarrels

void Membership::on_link_report(Turn& turn, std::uint32_t from, const wire::LinkReport& report) {
  if (report.node == from) return;
  forgive_own_pause(turn.now);
  if (!nodes_.contains(report.node)) {  // MB-6
    turn.effects.notice(
        daemon_of(from), wire::Method::kNodeDied,
        wire::NodeDied{report.node, node_id(report.node), "it was declared dead before, or never was of this cluster"});
    return;
  }
  const Pair pair = pair_of(from, report.node);
  if (report.state == wire::LinkState::kUp) quarrels_.erase(pair);
  if (report.state != wire::LinkState::kDown || !quarrels_.try_emplace(pair, turn.now + options_.quarrel_grace).second)
    return;
  turn.effects.warn("node " + std::to_string(from) + " has no link to node " + std::to_string(report.node) + ": " +
                    report.why);
}

std::uint32_t Membership::culprit(Pair pair) const {
  const auto [first, second] = pair;
  if (nodes_.at(first).info.is_head != nodes_.at(second).info.is_head)
    return nodes_.at(first).info.is_head ? second : first;
  auto quarrels = [&](std::uint32_t number) {
    return std::count_if(quarrels_.begin(), quarrels_.end(),
                         [&](const auto& one) { return one.first.first == number || one.first.second == number; });
  };
  return quarrels(first) > quarrels(second) ? first : second;
}

/// One at a time: with the one that is fenced its other quarrels end.
std::optional<Membership::Verdict> Membership::judge_quarrels(const Turn& turn) {
  for (auto& [pair, until] : quarrels_) {
    if (until > turn.now) continue;
    // A suspect, or one that answers no pings, will be judged for that: the other is not to blame.
    const auto in_doubt = [&](std::uint32_t number) {
      return suspects_.contains(number) || nodes_.at(number).pings_unanswered > 1;
    };
    if (in_doubt(pair.first) || in_doubt(pair.second)) {
      until = turn.now + kDoubtPause;
      continue;
    }
    const std::uint32_t fenced = culprit(pair), other = fenced == pair.first ? pair.second : pair.first;
    return Verdict{fenced,
                   "it and node " + std::to_string(other) + " do not reach each other, and one of them had to go"};
  }
  return std::nullopt;
}

bool Membership::heard(std::uint32_t number, LinkId link) {
  auto at = nodes_.find(number);
  if (at == nodes_.end() || at->second.link != link) return false;
  at->second.pings_unanswered = 0;
  return true;
}

bool Membership::on_load(Turn& turn, const wire::NodeLoad& load) {
  auto at = nodes_.find(load.node);
  if (at == nodes_.end() || load.version < at->second.load_version) return false;
  Node& node = at->second;
  node.load_version = load.version;
  node.reported = sched::ResourceSet::from_map(load.available);
  node.reported.gpu -= sched::to_fixed(load.gpu_pieces);
  node.info.gpu_pieces = load.gpu_pieces;
  node.info.pending = load.pending;
  node.in_flight.erase(node.in_flight.begin(), node.in_flight.upper_bound(load.starts_seen));
  refresh(load.node, node);
  changed_.insert(load.node);
  if (!push_at_) push_at_ = turn.now + options_.push_every;
  return true;
}

std::vector<Membership::Verdict> Membership::judge(Turn& turn) {
  forgive_own_pause(turn.now);
  std::vector<Verdict> verdicts;
  for (auto& [number, suspect] : suspects_) {
    if (suspect.probe_at && *suspect.probe_at <= turn.now) {
      suspect.probe_at.reset();
      turn.effects.add(ProbeNode{number, nodes_.at(number).info.address});
    }
    if (suspect.until > turn.now) continue;
    verdicts.push_back({number, suspect.nobody_there
                                    ? "its daemon is gone: its connection was lost, and nobody listens at its address"
                                    : "its connection to the head was lost"});
  }
  if (auto verdict = judge_quarrels(turn); verdict && verdicts.empty()) verdicts.push_back(std::move(*verdict));
  if (!ping_at_ || *ping_at_ > turn.now) return verdicts;
  const bool on_time = turn.now - *ping_at_ < options_.ping_every / 2;  // MB-2
  ping_at_ = turn.now + options_.ping_every;
  for (auto& [number, node] : nodes_) {
    if (suspects_.contains(number)) continue;
    if (on_time && node.pings_unanswered >= pings_allowed(node)) {
      verdicts.push_back({number, "it was silent for " + std::to_string(node.pings_unanswered) +
                                      " pings in a row (stopped, hung, or cut off)"});
      continue;
    }
    ping(turn, number, node, on_time);
  }
  return verdicts;
}

int Membership::pings_allowed(const Node& node) const {
  return is_served(node) ? std::max(kPingsMissed, static_cast<int>(options_.served_grace / options_.ping_every))
                         : kPingsMissed;
}

void Membership::ping(Turn& turn, std::uint32_t number, Node& node, bool counts) {
  if (counts && node.answers_pings) ++node.pings_unanswered;
  turn.effects.request(daemon_of(number), wire::Method::kPing, kPingTokenBit | ++ping_token_, wire::Empty{});
}

bool Membership::on_pong(std::uint32_t number, std::uint64_t token) {
  if ((token & kPingTokenBit) == 0) return false;
  if (auto at = nodes_.find(number); at != nodes_.end()) at->second.answers_pings = true;
  return true;
}

void Membership::declare_dead(Turn& turn, std::uint32_t number, const std::string& reason) {
  auto at = nodes_.find(number);
  if (at == nodes_.end()) return;
  wire::NodeDied died{number, at->second.info.node_id, reason};
  at->second.info.state = "DEAD";
  at->second.info.available.clear();
  if (at->second.link != 0) turn.effects.add(CloseLink{at->second.link});
  turn.effects.add(ForgetNode{number});
  dead_.push_back(std::move(at->second.info));
  if (dead_.size() > kDeadNodesKept) dead_.pop_front();
  nodes_.erase(at);
  view_.remove(number);
  changed_.erase(number);
  suspects_.erase(number);
  std::erase_if(quarrels_, [&](const auto& one) { return one.first.first == number || one.first.second == number; });
  newly_dead_.push_back(number);
  for (auto& [other, node] : nodes_) turn.effects.notice(daemon_of(other), wire::Method::kNodeDied, died);
  push_now(turn);
  turn.effects.warn("node " + std::to_string(number) + " (" + died.node_id + ") died: " + reason);
}

void Membership::push(Turn& turn) {
  if (push_at_ && *push_at_ <= turn.now) push_now(turn);
}

void Membership::push_now(Turn& turn, std::uint32_t except) {
  push_at_.reset();
  if (changed_.empty() && newly_dead_.empty()) return;
  wire::ClusterView delta;
  delta.version = ++version_;
  for (std::uint32_t number : changed_) {
    if (auto at = nodes_.find(number); at != nodes_.end()) delta.nodes.push_back(described(at->second));
  }
  delta.dead = std::exchange(newly_dead_, {});
  changed_.clear();
  for (auto& [number, node] : nodes_) {
    if (number != except) turn.effects.notice(daemon_of(number), wire::Method::kClusterView, delta);
  }
}

std::optional<Time> Membership::next_deadline() const {
  std::optional<Time> next = push_at_;
  auto consider = [&](std::optional<Time> at) { if (at && (!next || *at < *next)) next = at; };
  if (!nodes_.empty()) consider(ping_at_);
  for (const auto& [number, suspect] : suspects_) {
    consider(suspect.until);
    consider(suspect.probe_at);
  }
  for (const auto& [pair, until] : quarrels_) consider(until);
  return next;
}

void Membership::debit(std::uint32_t number, const sched::ResourceSet& amount) {
  auto at = nodes_.find(number);
  if (at == nodes_.end()) return;
  Node& node = at->second;
  ++node.starts_sent;
  if (!amount.empty()) node.in_flight.emplace(node.starts_sent, amount);
  view_.debit(number, amount);
}

void Membership::refresh(std::uint32_t number, Node& node) {
  sched::ResourceSet available = node.reported;
  for (const auto& [start, amount] : node.in_flight) available.subtract(amount);
  view_.set_load(number, std::move(available), node.info.pending);
}

wire::NodeInfo Membership::described(const Node& node) const {
  wire::NodeInfo info = node.info;
  const sched::NodeView* view = view_.find(info.node);
  if (!view) return info;
  sched::ResourceSet free = view->available;
  free.gpu += sched::to_fixed(info.gpu_pieces);
  std::map<std::string, double> left = free.to_map();
  info.available.clear();
  for (const auto& [name, total] : info.resources) info.available[name] = left.contains(name) ? left[name] : 0;
  return info;
}

wire::ClusterView Membership::full_view() const {
  wire::ClusterView view;
  view.version = version_;
  view.full = true;
  for (const auto& [number, node] : nodes_) view.nodes.push_back(described(node));
  return view;
}

std::string Membership::node_id(std::uint32_t number) const {
  if (auto at = nodes_.find(number); at != nodes_.end()) return at->second.info.node_id;
  for (const wire::NodeInfo& info : dead_) {
    if (info.node == number) return info.node_id;
  }
  return {};
}

LinkId Membership::link_of(std::uint32_t number) const {
  auto at = nodes_.find(number);
  return at == nodes_.end() ? 0 : at->second.link;
}

std::vector<std::uint32_t> Membership::living() const {
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, node] : nodes_) numbers.push_back(number);
  return numbers;
}

std::vector<wire::NodeInfo> Membership::infos() const {
  std::vector<wire::NodeInfo> infos;
  for (const auto& [number, node] : nodes_) infos.push_back(described(node));
  infos.insert(infos.end(), dead_.begin(), dead_.end());
  return infos;
}

}  // namespace troupe::head

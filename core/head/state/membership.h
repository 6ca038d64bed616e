// The nodes of the cluster: who joins, who is alive, who is declared dead, and what the schedulers know of them.
//
//              register            link lost       grace over, or nobody listens where it did
//   (unknown) ----------> ALIVE --------------> SUSPECT ------------------> DEAD
//                           ^                      |                         ^
//                           +-- register again ----+                         |
//                           +------- silent for 5 counted pings -------------+
//                           +------- fenced: see QUARREL --------------------+
//
// Two nodes that reach the head but not each other (QUARREL: a daemon reports a link that is down for seconds) cannot
// both stay: what one holds for the other would wait for ever. They have quarrel_grace to be linked again; then one is
// fenced, the one with which more others quarrel, never the head's own, else the younger.
//
// Invariants
//   MB-1  Node numbers ascend from 1 and are never given twice; a number once dead stays dead, and a daemon that comes
//         back with it is refused (fencing).
//   MB-2  A death by silence needs kPingsMissed pings without any frame in between, each sent while the head itself was
//         on time: a head that was stopped or starved blames nobody. It needs one answered ping first (the first is
//         sent at registration).
//   MB-3  A change of membership is pushed to all daemons in the same step; changes of load are gathered for
//         push_every.
//   MB-4  What was sent to a node to start is debited until the node's own report includes it (NodeLoad.starts_seen),
//         whatever becomes of the actor meanwhile: so the head alone never sends a node more than it has.
//   MB-6  A verdict is final and goes to all living nodes. One that reports a link to a node which is dead, or never
//         was, gets the verdict again.
//   MB-7  Time in which the head did not run itself counts for no suspect and no quarrel: what would have ended them
//         may wait unread.
//   MB-5  The daemon that the head serves (served_pid) and the head watch each other as processes, so its death is
//         never in doubt: silence or a lost link is its death only after served_grace (a starved machine, not a dead
//         node).
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/head/state/events.h"
#include "core/base/random.h"
#include "scheduler/cluster_view.h"

namespace troupe::head {

struct MembershipOptions {
  std::string cluster_id;
  std::uint64_t epoch = 1;
  /// between a lost link and the node's death, if somebody listens there
  Duration link_grace = std::chrono::seconds(3);
  /// between the report of a lost link of two nodes and the fencing of one
  Duration quarrel_grace = std::chrono::seconds(2);
  Duration ping_every = std::chrono::milliseconds(800);  ///< times kPingsMissed: the death of a silent node
  Duration push_every = std::chrono::milliseconds(10);   ///< changes of load are gathered so long
  int served_pid = 0;                                    ///< the daemon whose end is the head's end; 0: there is none
  Duration served_grace = std::chrono::seconds(30);      ///< MB-5: for its silence and for its lost link
};
inline constexpr int kPingsMissed = 5;
/// Dead nodes that are still listed.
inline constexpr std::size_t kDeadNodesKept = 1000;

class Membership {
 public:
  explicit Membership(MembershipOptions options) : options_(std::move(options)) {}

  /// Answers the caller; true when a node was added (not when it came back).
  bool register_node(Turn& turn, LinkId link, Caller caller, const wire::RegisterNode& request, Random& random);
  void on_link_closed(Turn& turn, LinkId link);
  /// No process has the port of a node's daemon: a suspect is dead.
  void on_nobody_listens(Turn& turn, std::uint32_t node);
  /// That is not sure yet: a suspect is looked for again soon.
  void on_probe_broken(Turn& turn, std::uint32_t node);
  void on_link_report(Turn& turn, std::uint32_t from, const wire::LinkReport& report);
  /// Something came from the node: it is alive. False when frames from there are not to be believed (fenced, unknown).
  bool heard(std::uint32_t node, LinkId link);
  /// The answer to a request of the head: true when it was a ping's.
  bool on_pong(std::uint32_t node, std::uint64_t token);
  bool on_load(Turn& turn, const wire::NodeLoad& load);

  /// The nodes whose time is over now; the caller declares them dead.
  struct Verdict { std::uint32_t node = 0; std::string reason; };
  std::vector<Verdict> judge(Turn& turn);
  void declare_dead(Turn& turn, std::uint32_t node, const std::string& reason);
  /// Sends what has changed, when it is time.
  void push(Turn& turn);
  std::optional<Time> next_deadline() const;

  /// A start is sent to the node (MB-4); every start, also of an actor that needs nothing, is counted.
  void debit(std::uint32_t node, const sched::ResourceSet& amount);

  const sched::ClusterView& view() const { return view_; }
  bool alive(std::uint32_t node) const { return nodes_.contains(node); }
  std::string node_id(std::uint32_t node) const;  ///< also of dead nodes that are still listed
  std::vector<std::uint32_t> living() const;
  /// Living nodes, then dead ones.
  std::vector<wire::NodeInfo> infos() const;
  const MembershipOptions& options() const { return options_; }
  LinkId link_of(std::uint32_t node) const;

 private:
  struct Node {
    wire::NodeInfo info;
    LinkId link = 0;
    int pings_unanswered = 0;
    bool answers_pings = false;
    std::uint64_t load_version = 0;
    std::uint64_t starts_sent = 0;
    sched::ResourceSet reported;                             // available, as the node said
    std::map<std::uint64_t, sched::ResourceSet> in_flight;   // MB-4, by start number
  };
  bool come_back(Turn& turn, LinkId link, Caller caller, const wire::RegisterNode& request);
  void greet(Turn& turn, LinkId link, Caller caller, const Node& node);
  void ping(Turn& turn, std::uint32_t number, Node& node, bool counts);
  void forgive_own_pause(Time now);
  using Pair = std::pair<std::uint32_t, std::uint32_t>;  ///< the lesser number first
  static Pair pair_of(std::uint32_t a, std::uint32_t b) { return {std::min(a, b), std::max(a, b)}; }
  std::optional<Verdict> judge_quarrels(const Turn& turn);
  std::uint32_t culprit(Pair pair) const;
  bool is_served(const Node& node) const {
    return options_.served_pid != 0 && node.info.is_head && node.info.pid == options_.served_pid;
  }
  int pings_allowed(const Node& node) const;
  void refresh(std::uint32_t number, Node& node);
  wire::NodeInfo described(const Node& node) const;
  void push_now(Turn& turn, std::uint32_t except = 0);
  wire::ClusterView full_view() const;

  MembershipOptions options_;
  std::map<std::uint32_t, Node> nodes_;   // living
  std::deque<wire::NodeInfo> dead_;
  /// Its link is lost; dead at `until`.
  struct Suspect { Time until; std::optional<Time> probe_at = {}; bool nobody_there = false; };
  std::map<std::uint32_t, Suspect> suspects_;
  std::map<Pair, Time> quarrels_;           // MB-6; one of them is fenced at that time
  sched::ClusterView view_;
  std::uint32_t last_number_ = 0;
  std::uint64_t version_ = 0;
  std::set<std::uint32_t> changed_;
  std::vector<std::uint32_t> newly_dead_;
  std::optional<Time> push_at_, ping_at_;
  Time looked_at_{};                        // MB-7
  std::uint64_t ping_token_ = 0;
};

}  // namespace troupe::head

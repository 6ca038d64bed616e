// Where actors run, and what waits for a place: the scheduler's policy, asked for actors.
//
//   wait ----> WAITING --- a pass: it fits ----> placed
//                 | it can run nowhere any more: the pass says so (Decision::kInfeasible), and it waits no more
//
// Pure and of one thread. What becomes of an actor its user decides; this class knows specifications only.
//
// Invariants
//   AP-1  A change that comes while a pass runs makes another pass after it: what fits then is not left waiting.
//   AP-2  What is placed counts as taken on its node at once (MB-4), and Spread goes on from there.
//   AP-3  A demand that waits is mentioned once in kWarnAgain, however many actors have it; so is a node on which
//         starts of a job fail.
//   AP-4  An actor for which there is no room but for the tasks that run there claims a place: it is sent to such a
//         node, and waits there ahead of further tasks. Left to wait here it would never see room while tasks queue. A
//         node that has refused one has a rest before the next one, whoever claims: kClaimAgain.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/head/state/events.h"
#include "core/head/state/membership.h"
#include "core/head/state/actors/placement_queue.h"
#include "scheduler/policy.h"

namespace troupe::head {

inline constexpr Duration kWarnTooLarge = std::chrono::seconds(1);   ///< no node is large enough
inline constexpr Duration kWarnBusy = std::chrono::seconds(5);       ///< no node has it free
/// While an actor waits on a node it may keep CPUs from tasks, for half a second (LQ-7): not all the time.
inline constexpr Backoff kClaimAgain{.initial = std::chrono::milliseconds(250), .max = std::chrono::seconds(4)};
inline constexpr Duration kWarnAgain = std::chrono::seconds(60);     ///< the same demand is not mentioned again before

class ActorPlacement {
 public:
  using Attempt = PlacementQueue::Attempt;

  explicit ActorPlacement(Membership& membership) : membership_(membership) {}

  using Nodes = std::vector<std::uint32_t>;

  /// `avoid`: nodes that are chosen only when it fits on no other one now.
  sched::Decision decide(const wire::ActorSpec& spec, const Nodes& avoid = {}) const;
  /// The node whose place it claims (AP-4); `held` is what actors have, by node. 0: none.
  std::uint32_t claim(Time now, const wire::ActorSpec& spec, const std::map<std::uint32_t, sched::ResourceSet>& held,
                      const Nodes& avoid = {}) const;
  void wait(const wire::ActorSpec& spec);
  /// The cluster has changed: asks about what waits, the oldest first (PQ-1). An actor that does not wait any more
  /// answers kPlaced. A pass inside of a pass returns at once (AP-1).
  void pass(const std::function<Attempt(ActorId)>& attempt);
  /// Its start is sent to this node.
  void placed(const wire::ActorSpec& spec, std::uint32_t node);
  void claim_kept(std::uint32_t node) { refusals_.erase(node); }
  /// How long nobody claims a place on this node; `chance` is uniform in [0, 1).
  Duration claim_refused(Time now, std::uint32_t node, double chance);

  /// How long it may wait without a word.
  Duration warn_after(const wire::ActorSpec& spec) const;
  /// Why it waits; nothing when that was said of another one lately (AP-3).
  std::optional<std::string> why_waiting(Time now, const wire::ActorSpec& spec);
  /// Is it to be said now that starts of this job fail on this node (AP-3)?
  bool mention_failures(Time now, JobId job, std::uint32_t node);

 private:
  struct Refusals { std::uint32_t count = 0; Time until{}; };

  sched::Asker asker_of(const wire::ActorSpec& spec) const;
  bool mention(Time now, const std::string& what);

  Membership& membership_;
  PlacementQueue queue_;
  std::map<std::string, Time> warned_;  // by demand, or by job and node
  std::map<std::uint32_t, Refusals> refusals_;  // by node
  std::uint32_t last_spread_ = 0;
  bool passing_ = false, again_ = false;
};

}  // namespace troupe::head

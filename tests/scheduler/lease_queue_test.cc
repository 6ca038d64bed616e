#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "scheduler/lease_queue.h"

namespace troupe::sched {
namespace {

using namespace std::chrono_literals;

struct Bench {
  explicit Bench(double cpus = 2, double gpus = 0, int max_suspended = 512)
      : Bench(options(cpus, gpus, max_suspended)) {}
  explicit Bench(const LeaseQueueOptions& options) : queue(options) {}
  static LeaseQueueOptions options(double cpus, double gpus, int max_suspended) {
    LeaseQueueOptions o;
    o.node = 1;
    o.total = ResourceSet::from_map({{"CPU", cpus}, {"GPU", gpus}});
    o.max_suspended_workers = max_suspended;
    return o;
  }

  wire::LeaseWanted request(ProcessId who, std::uint64_t id, std::uint32_t wanted, double cpus = 1, JobId job = 1) {
    wire::LeaseWanted w;
    w.requester = who;
    w.request_id = id;
    w.wanted = wanted;
    w.lease_class.job = job;
    w.lease_class.resources.cpus = cpus;
    return w;
  }
  void want(ProcessId who, std::uint64_t id, std::uint32_t wanted, double cpus = 1, JobId job = 1) {
    queue.wanted(request(who, id, wanted, cpus, job), now);
    collect();
  }
  /// Takes the effects; gives a worker for each that is needed.
  void collect() {
    for (auto effects = queue.take_effects(); !effects.empty(); effects = queue.take_effects()) {
      for (auto& effect : effects) {
        if (auto* g = std::get_if<Granted>(&effect)) granted.push_back(*g);
        if (auto* r = std::get_if<Refused>(&effect)) refused.push_back(*r);
        if (auto* w = std::get_if<Warn>(&effect)) warnings.push_back(w->text);
        if (auto* e = std::get_if<EndWorker>(&effect)) ended.push_back(e->worker);
        if (auto* f = std::get_if<Forward>(&effect)) forwards.push_back(*f);
        if (auto* c = std::get_if<CountAtOrigin>(&effect)) counted.push_back(*c);
        if (auto* a = std::get_if<ActorAdmitted>(&effect)) admitted.push_back(*a);
        if (auto* a = std::get_if<ActorNotAdmitted>(&effect)) denied.push_back(*a);
        if (auto* n = std::get_if<NeedWorkers>(&effect); n && fork)
          for (int i = 0; i < n->count; ++i) queue.worker_ready({1, next_worker++}, 1000, n->kind, now);
      }
    }
    EXPECT_EQ(queue.audit(), "");
  }
  void give_back(std::uint64_t lease) {
    queue.returned(lease, now);
    collect();
  }
  void tick(Duration span) {
    now += span;
    queue.tick(now);
    collect();
  }
  /// Each deadline within `span` comes, and is not set again for then or before: nothing would be left of the daemon.
  void to_deadlines(Duration span) {
    const TimePoint end = now + span;
    for (auto next = queue.next_deadline(); next && *next <= end; next = queue.next_deadline()) {
      ASSERT_GE(*next, now);
      now = *next;
      queue.tick(now);
      collect();
      const auto then = queue.next_deadline();
      ASSERT_TRUE(!then || *then > now);
    }
    now = end;
  }
  /// Each lease of this requester has lasted its term.
  void terms_end(ProcessId who) {
    std::vector<Granted> kept, ended;
    for (const Granted& one : std::exchange(granted, {})) (one.requester == who ? ended : kept).push_back(one);
    granted = kept;
    for (Granted& one : ended) {
      one.lease.lease_id = queue.renew(one.lease.lease_id, who, now);
      if (one.lease.lease_id != 0) granted.push_back(one);
    }
    collect();
  }
  std::size_t leases_of(ProcessId who) const {
    return static_cast<std::size_t>(std::ranges::count(granted, who, &Granted::requester));
  }
  void actor(std::uint64_t number, double cpus, double gpus = 0) {
    queue.admit_actor({kDriverProcess, number}, 0, ResourceSet::from_map({{"CPU", cpus}, {"GPU", gpus}}), now);
    collect();
  }
  static constexpr ProcessId kDriverProcess{1, 1};
  double free_cpus() const { return from_fixed(queue.resources().available().cpu); }

  LeaseQueue queue;
  TimePoint now{};
  bool fork = true;
  std::uint32_t next_worker = 100;
  std::vector<Granted> granted;
  std::vector<Refused> refused;
  std::vector<std::string> warnings;
  std::vector<ProcessId> ended;
  std::vector<Forward> forwards;
  std::vector<CountAtOrigin> counted;
  std::vector<ActorAdmitted> admitted;
  std::vector<ActorNotAdmitted> denied;
};

constexpr ProcessId kDriver{1, 1}, kOther{1, 2};

TEST(LeaseQueue, GrantsAsManyAsFitAndTheRestWhenResourcesComeBack) {
  Bench b(2);
  b.want(kDriver, 1, 5);
  ASSERT_EQ(b.granted.size(), 2u);
  EXPECT_EQ(b.free_cpus(), 0);
  b.give_back(b.granted[0].lease.lease_id);
  ASSERT_EQ(b.granted.size(), 3u);
  EXPECT_EQ(b.granted[2].lease.worker, b.granted[0].lease.worker) << "a worker that became idle is used again";
}

TEST(LeaseQueue, WantedIsAbsoluteAndZeroWithdraws) {
  Bench b(1);
  b.want(kDriver, 1, 3);
  b.want(kDriver, 1, 2);
  b.want(kDriver, 1, 2);
  EXPECT_EQ(b.queue.pending(), 2u);
  b.want(kDriver, 1, 0);
  EXPECT_EQ(b.queue.pending(), 0u);
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.granted.size(), 1u);
  EXPECT_EQ(b.free_cpus(), 1);
}

TEST(LeaseQueue, LowersWhatIsReservedButHasNoWorkerYet) {
  Bench b(4);
  b.fork = false;
  b.want(kDriver, 1, 4);
  EXPECT_EQ(b.free_cpus(), 0);
  b.want(kDriver, 1, 1);
  EXPECT_EQ(b.free_cpus(), 3);
}

TEST(LeaseQueue, TakesTurnsBetweenJobsAndBetweenRequesters) {
  Bench b(1);
  b.want(kDriver, 1, 50, 1, 1);
  b.want(kOther, 1, 50, 1, 1);
  b.want({1, 3}, 1, 50, 1, 2);
  std::map<ProcessId, int> seen;
  for (int i = 0; i < 40; ++i) {
    const Granted g = b.granted.back();
    seen[g.requester]++;
    b.give_back(g.lease.lease_id);
  }
  EXPECT_NEAR((seen[ProcessId{1, 3}]), 20, 2) << "each of the two jobs has half";
  EXPECT_NEAR(seen[kDriver], 10, 2);
  EXPECT_NEAR(seen[kOther], 10, 2);
}

TEST(LeaseQueue, AClassThatDoesNotFitHoldsBackNobody) {
  Bench b(2);
  b.want(kDriver, 1, 1, 1);
  b.want(kDriver, 2, 1, 2);
  b.want(kDriver, 3, 1, 1);
  ASSERT_EQ(b.granted.size(), 2u);
  EXPECT_EQ(b.granted[1].lease.request_id, 3u);
}

TEST(LeaseQueue, BlockedWorkersLendTheirCpusAndWakeAtOnce) {
  Bench b(1);
  b.want(kDriver, 1, 1);
  const ProcessId first = b.granted[0].lease.worker;
  b.queue.worker_blocked(first, b.granted[0].lease.lease_id, true, b.now);
  b.queue.worker_blocked(first, b.granted[0].lease.lease_id, true, b.now);  // idempotent
  b.want(kDriver, 1, 1);
  ASSERT_EQ(b.granted.size(), 2u) << "the CPU that was lent is used";
  EXPECT_NE(b.granted[1].lease.worker, first) << "a suspended process is not shared";
  b.queue.worker_blocked(first, b.granted[0].lease.lease_id, false, b.now);
  b.collect();
  EXPECT_EQ(b.free_cpus(), -1) << "LQ-1";
  b.want(kDriver, 1, 1);
  b.give_back(b.granted[1].lease.lease_id);
  EXPECT_EQ(b.granted.size(), 2u) << "no grant until the account is back";
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.granted.size(), 3u);
}

TEST(LeaseQueue, SharesProcessesOnlyAboveTheSuspendedLimit) {
  Bench b(1, 0, 2);
  for (int i = 0; i < 2; ++i) {
    b.want(kDriver, 1, 1);
    b.queue.worker_blocked(b.granted.back().lease.worker, b.granted.back().lease.lease_id, true, b.now);
    b.collect();
  }
  EXPECT_TRUE(b.warnings.empty());
  b.want(kDriver, 1, 1);
  ASSERT_EQ(b.granted.size(), 3u);
  EXPECT_TRUE(b.granted[2].lease.worker == b.granted[0].lease.worker ||
              b.granted[2].lease.worker == b.granted[1].lease.worker);
  EXPECT_EQ(b.warnings.size(), 1u);
  EXPECT_TRUE(b.granted[2].lease.shared) << "its task runs beside the one that waits";
  EXPECT_FALSE(b.granted[1].lease.shared);
}

/// Each lease of a shared worker lends and takes back its own CPUs.
TEST(LeaseQueue, ASharedWorkerLendsWhatItsWaitingTasksHold) {
  Bench b(1, 0, 1);
  b.want(kDriver, 1, 1);
  const auto first = b.granted[0].lease;
  b.queue.worker_blocked(first.worker, first.lease_id, true, b.now);
  b.want(kDriver, 1, 1);
  ASSERT_EQ(b.granted.size(), 2u);
  const auto second = b.granted[1].lease;
  EXPECT_EQ(second.worker, first.worker);
  EXPECT_EQ(b.free_cpus(), 0) << "the second one runs";
  b.queue.worker_blocked(second.worker, second.lease_id, true, b.now);
  b.collect();
  EXPECT_EQ(b.free_cpus(), 1) << "both wait";
  b.queue.worker_blocked(second.worker, second.lease_id, false, b.now);
  b.collect();
  EXPECT_EQ(b.free_cpus(), 0) << "one goes on, the other still waits";
  b.give_back(second.lease_id);
  b.give_back(first.lease_id);
  EXPECT_EQ(b.free_cpus(), 1);
}

TEST(LeaseQueue, ADeadWorkerGivesItsResourcesBackOnce) {
  Bench b(1);
  b.want(kDriver, 1, 1);
  const auto lease = b.granted[0].lease;
  b.queue.process_died(lease.worker, b.now);
  b.collect();
  EXPECT_EQ(b.free_cpus(), 1);
  b.give_back(lease.lease_id);  // LQ-3: the requester's own return comes late
  EXPECT_EQ(b.free_cpus(), 1);
}

TEST(LeaseQueue, ADeadRequestersWorkersEndAndItsWishesVanish) {
  Bench b(1);
  b.want(kDriver, 1, 3);
  b.queue.process_died(kDriver, b.now);
  b.collect();
  ASSERT_EQ(b.ended.size(), 1u);
  EXPECT_EQ(b.queue.pending(), 0u);
  EXPECT_EQ(b.free_cpus(), 0) << "held until the worker is dead";
  b.queue.process_died(b.ended[0], b.now);
  b.collect();
  EXPECT_EQ(b.free_cpus(), 1);
}

TEST(LeaseQueue, FractionsOfGpusLieOnOneDevice) {
  Bench b(8, 2);
  wire::LeaseWanted w = b.request(kDriver, 1, 3, 0);
  w.lease_class.resources.gpus = 0.5;
  b.queue.wanted(w, b.now);
  b.collect();
  ASSERT_EQ(b.granted.size(), 3u);
  std::map<int, int> uses;
  for (auto& g : b.granted) {
    ASSERT_EQ(g.lease.gpu_ids.size(), 1u);
    uses[g.lease.gpu_ids[0]]++;
  }
  EXPECT_EQ(uses.size(), 2u);
}

TEST(LeaseQueue, ARequestLargerThanAnyNodeWaitsWithOneWarning) {
  Bench b(2);
  b.want(kDriver, 1, 1, 64);
  EXPECT_TRUE(b.refused.empty());
  for (int i = 0; i < 10; ++i) {
    b.now += 500ms;
    b.queue.tick(b.now);
    b.collect();
  }
  EXPECT_EQ(b.warnings.size(), 1u) << "LQ-5";
  EXPECT_EQ(b.queue.pending(), 1u);
}

TEST(LeaseQueue, LQ9_AHardAffinityToAnUnknownNodeIsRefusedAfterAWhile) {
  Bench b(2);
  wire::LeaseWanted w = b.request(kDriver, 1, 1);
  w.lease_class.scheduling = NodeAffinity{"nowhere", false};
  b.queue.wanted(w, b.now);
  b.collect();
  EXPECT_TRUE(b.refused.empty()) << "news of it may be on the way";
  b.to_deadlines(1s);
  ASSERT_EQ(b.refused.size(), 1u);
  EXPECT_EQ(b.refused[0].refusal.error.code, ErrorCode::kInfeasible);
  EXPECT_TRUE(b.warnings.empty());
}

TEST(LeaseQueue, AFailedEnvironmentRefusesTheRequestThatWaitsForIt) {
  Bench b(2);
  b.fork = false;
  b.want(kDriver, 1, 1);
  ErrorRecord error;
  error.code = ErrorCode::kRuntimeEnv;
  b.queue.worker_failed(worker_kind(1, {}), error, b.now);
  b.collect();
  ASSERT_EQ(b.refused.size(), 1u);
  EXPECT_EQ(b.free_cpus(), 2);
}

wire::ClusterView two_nodes(double here, double there, std::uint64_t version) {
  wire::ClusterView view;
  view.version = version;
  view.full = true;
  for (std::uint32_t n : {1u, 2u}) {
    wire::NodeInfo info;
    info.node = n;
    info.node_id = "n" + std::to_string(n);
    info.resources = {{"CPU", 2}};
    info.available = {{"CPU", n == 1 ? here : there}};
    view.nodes.push_back(info);
  }
  return view;
}

TEST(LeaseQueue, LQ9_AHardAffinityToANodeThatHasJustJoinedIsServedWhenTheViewNamesIt) {
  Bench b(2);
  wire::LeaseWanted w = b.request(kDriver, 1, 1);
  w.lease_class.scheduling = NodeAffinity{"n2", false};
  b.queue.wanted(w, b.now);
  b.collect();
  EXPECT_TRUE(b.refused.empty() && b.forwards.empty());
  b.queue.view_delta(two_nodes(2, 2, 1), b.now);
  b.collect();
  ASSERT_EQ(b.forwards.size(), 1u);
  EXPECT_EQ(b.forwards[0].node, 2u);
  EXPECT_TRUE(b.refused.empty());
}

TEST(LeaseQueue, LQ9_ASoftAffinityToANodeThatHasJustJoinedIsServedWhenTheViewNamesIt) {
  Bench b(2);
  wire::LeaseWanted w = b.request(kDriver, 1, 1);
  w.lease_class.scheduling = NodeAffinity{"n2", true};
  b.queue.wanted(w, b.now);
  b.collect();
  EXPECT_TRUE(b.granted.empty() && b.forwards.empty()) << "news of it may be on the way";
  b.queue.view_delta(two_nodes(2, 2, 1), b.now);
  b.collect();
  EXPECT_TRUE(b.granted.empty());
  ASSERT_EQ(b.forwards.size(), 1u);
  EXPECT_EQ(b.forwards[0].node, 2u);
}

TEST(LeaseQueue, LQ9_ASoftAffinityToAnUnknownNodePassesItOverAfterAWhileAndOnce) {
  Bench b(2);
  wire::LeaseWanted w = b.request(kDriver, 1, 1);
  w.lease_class.scheduling = NodeAffinity{"nowhere", true};
  b.queue.wanted(w, b.now);
  b.collect();
  EXPECT_TRUE(b.granted.empty());
  b.to_deadlines(1s);
  EXPECT_EQ(b.granted.size(), 1u);
  wire::LeaseWanted next = b.request(kDriver, 2, 1);
  next.lease_class.scheduling = NodeAffinity{"nowhere", true};
  b.queue.wanted(next, b.now);
  b.collect();
  EXPECT_EQ(b.granted.size(), 2u) << "SUN-1: awaited once";
}

TEST(LeaseQueue, LQ9_ANodeThatHasDiedIsNotAwaited) {
  Bench b(2);
  b.queue.view_delta(two_nodes(2, 2, 1), b.now);
  b.queue.node_died(2, b.now);
  wire::LeaseWanted w = b.request(kDriver, 1, 1);
  w.lease_class.scheduling = NodeAffinity{"n2", true};
  b.queue.wanted(w, b.now);
  b.collect();
  EXPECT_EQ(b.granted.size(), 1u);
  wire::LeaseWanted hard = b.request(kDriver, 2, 1);
  hard.lease_class.scheduling = NodeAffinity{"n2", false};
  b.queue.wanted(hard, b.now);
  b.collect();
  EXPECT_EQ(b.refused.size(), 1u);
}

TEST(LeaseQueue, WhatDoesNotFitHereGoesToANodeWithRoomAndIsCountedOff) {
  Bench b(2);
  b.queue.view_delta(two_nodes(2, 2, 1), b.now);
  b.want(kDriver, 1, 10);
  EXPECT_EQ(b.granted.size(), 2u);
  ASSERT_FALSE(b.forwards.empty());
  EXPECT_EQ(b.forwards.back().node, 2u);
  EXPECT_EQ(b.forwards.back().wanted.wanted, 2u) << "no more than it has room for";
  EXPECT_EQ(b.queue.pending(), 6u);
  b.queue.counted({kDriver, 1, 2, 1, 1}, b.now);  // one granted there, one given back
  b.collect();
  EXPECT_EQ(b.queue.pending(), 7u);
  b.forwards.clear();
  b.want(kDriver, 1, 0);
  EXPECT_EQ(b.queue.pending(), 0u);
}

TEST(LeaseQueue, AGuessAboutAnotherNodeIsForgottenWhenNoReportComes) {
  Bench b(2);
  b.queue.view_delta(two_nodes(2, 1, 1), b.now);
  b.want(kDriver, 1, 3);
  ASSERT_EQ(b.forwards.size(), 1u);
  b.queue.counted({kDriver, 1, 2, 0, 1}, b.now);  // given back: it was busy for a moment that nobody reported
  b.collect();
  ASSERT_EQ(b.forwards.size(), 1u);
  b.now += 1s;
  ASSERT_TRUE(b.queue.next_deadline().has_value());
  b.queue.tick(b.now);
  b.collect();
  EXPECT_EQ(b.forwards.size(), 2u) << "LQ-6";
}

TEST(LeaseQueue, AForwardedRequestIsGrantedAndCountedOrGivenBack) {
  Bench b(1);
  wire::LeaseWanted w = b.request({2, 7}, 4, 2);
  w.hops = 1;
  b.queue.wanted(w, b.now);
  b.collect();
  ASSERT_EQ(b.granted.size(), 1u);
  ASSERT_EQ(b.counted.size(), 1u);
  EXPECT_EQ(b.counted[0].node, 2u);
  b.now += 200ms;
  b.queue.tick(b.now);
  b.collect();
  ASSERT_EQ(b.counted.size(), 2u);
  EXPECT_EQ(b.counted[1].counted.given_back, 1u) << "LQ-4";
  b.queue.node_died(2, b.now);
  b.collect();
  EXPECT_EQ(b.ended.size(), 1u);
}

TEST(LeaseQueue, DelegatedLeasesComeBackWhenTheirNodeDies) {
  Bench b(2);
  b.queue.view_delta(two_nodes(2, 2, 1), b.now);
  b.want(kDriver, 1, 4);
  ASSERT_EQ(b.queue.pending(), 0u);
  b.queue.node_died(2, b.now);
  b.collect();
  EXPECT_EQ(b.queue.pending(), 2u);
}

TEST(LeaseQueue, ActorsHoldResourcesWhileTheyLive) {
  Bench b(2);
  const ActorId actor{{1, 1}, 1}, second{{1, 1}, 2};
  b.queue.admit_actor(actor, 0, ResourceSet::from_map({{"CPU", 2}}), b.now);
  b.collect();
  ASSERT_EQ(b.admitted.size(), 1u);
  b.queue.admit_actor(second, 0, ResourceSet::from_map({{"CPU", 1}}), b.now);
  b.now += 1s;
  b.queue.tick(b.now);
  b.collect();
  ASSERT_EQ(b.denied.size(), 1u) << "the head may try another node";
  b.queue.actor_gone(actor, 0, b.now);
  b.queue.actor_gone(actor, 0, b.now);
  EXPECT_EQ(b.free_cpus(), 2);
}

/// Whatever comes in whatever order, the books are right after each step (audit is checked by collect).
TEST(LeaseQueue, BooksBalanceUnderRandomEvents) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    Bench b(3, 2, 2);
    std::uniform_int_distribution<int> any(0, 1 << 20);
    for (int step = 0; step < 300; ++step) {
      const ProcessId who{1, static_cast<std::uint32_t>(1 + any(random) % 4)};
      switch (any(random) % 8) {
        case 0:
        case 1:
          b.want(who, static_cast<std::uint64_t>(any(random) % 3), static_cast<std::uint32_t>(any(random) % 4),
                 any(random) % 3, 1 + who.serial % 2);
          break;
        case 2:
        case 3:
          if (!b.granted.empty())
            b.give_back(b.granted[static_cast<std::size_t>(any(random)) % b.granted.size()].lease.lease_id);
          break;
        case 4: case 5:
          if (!b.granted.empty()) {
            const auto& lease = b.granted[static_cast<std::size_t>(any(random)) % b.granted.size()].lease;
            b.queue.worker_blocked(lease.worker, lease.lease_id, any(random) % 2, b.now);
          }
          break;
        case 6:
          if (!b.granted.empty() && any(random) % 4 == 0)
            b.queue.process_died(b.granted[static_cast<std::size_t>(any(random)) % b.granted.size()].lease.worker,
                                 b.now);
          break;
        default:
          if (any(random) % 8 == 0) b.queue.process_died(who, b.now);
          b.queue.admit_actor({who, static_cast<std::uint64_t>(step)}, 0,
                              ResourceSet::from_map({{"CPU", any(random) % 3}}), b.now);
          if (!b.admitted.empty())
            b.queue.actor_gone(b.admitted[static_cast<std::size_t>(any(random)) % b.admitted.size()].actor, 0, b.now);
          b.now += 100ms;
          b.queue.tick(b.now);
      }
      b.collect();
      for (ProcessId worker : std::exchange(b.ended, {})) b.queue.process_died(worker, b.now);
      b.collect();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
  }
}

/// Two nodes, launchers that answer late, claims that come and go: nothing waits for ever once tasks end, no deadline
/// stays behind the clock, and the books are right after each step.
TEST(LeaseQueue, WhatWaitsIsServedInTheEndUnderRandomEvents) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const auto any = [&](std::uint32_t below) { return static_cast<std::uint32_t>(random() % below); };
    Bench b(2, 0, 2);
    std::uint64_t version = 0;
    std::vector<WorkerKind> late;
    const auto settle = [&] {
      for (auto effects = b.queue.take_effects(); !effects.empty(); effects = b.queue.take_effects())
        for (auto& effect : effects) {
          if (auto* g = std::get_if<Granted>(&effect)) b.granted.push_back(*g);
          if (auto* e = std::get_if<EndWorker>(&effect)) b.queue.process_died(e->worker, b.now);
          if (auto* f = std::get_if<Forward>(&effect)) b.forwards.push_back(*f);
          if (auto* a = std::get_if<ActorAdmitted>(&effect)) b.admitted.push_back(*a);
          if (auto* n = std::get_if<NeedWorkers>(&effect))
            late.insert(late.end(), static_cast<std::size_t>(n->count), n->kind);
        }
      EXPECT_EQ(b.queue.audit(), "");
    };
    const auto worker_comes = [&] {
      if (late.empty()) return;
      const WorkerKind kind = late.back();
      late.pop_back();
      if (any(8) == 0) b.queue.worker_failed(kind, {}, b.now);
      else b.queue.worker_ready({1, b.next_worker++}, 1000, kind, b.now);
    };
    const auto answer_forward = [&](bool grant) {
      if (b.forwards.empty()) return;
      const wire::LeaseWanted wanted = b.forwards.front().wanted;
      b.forwards.erase(b.forwards.begin());
      const std::uint32_t granted = grant ? std::min(wanted.wanted, 1u) : 0;
      b.queue.counted({wanted.requester, wanted.request_id, 2, granted, wanted.wanted - granted}, b.now);
    };
    const auto one_ends = [&](bool renews) {
      if (b.granted.empty()) return;
      const auto at = b.granted.begin() + any(static_cast<std::uint32_t>(b.granted.size()));
      Granted one = *at;
      b.granted.erase(at);
      if (renews) one.lease.lease_id = b.queue.renew(one.lease.lease_id, one.requester, b.now);
      else b.queue.returned(std::exchange(one.lease.lease_id, 0), b.now);
      if (one.lease.lease_id != 0) b.granted.push_back(one);
    };
    for (int step = 0; step < 200; ++step) {
      const std::uint32_t node = 1 + any(2), serial = 1 + any(3), id = any(3), count = any(4), cpus = any(3);
      wire::LeaseWanted wanted = b.request({node, serial}, id, count, cpus, 1 + any(2));
      wanted.hops = node - 1;
      if (node == 2 && any(2) == 0) wanted.claim_ms = 1000;
      switch (any(10)) {
        case 0: case 1: case 2: b.queue.wanted(wanted, b.now); break;
        case 3: one_ends(false); break;
        case 4: one_ends(true); break;
        case 5: worker_comes(); break;
        case 6: answer_forward(any(2) == 0); break;
        case 7: b.queue.view_delta(two_nodes(2, any(3), ++version), b.now); break;
        case 8:
          if (any(4) == 0)
            b.queue.admit_actor({{1, 1}, static_cast<std::uint64_t>(step)}, 0,
                                ResourceSet::from_map({{"CPU", any(3)}}), b.now);
          break;
        default: b.now += std::chrono::milliseconds(any(700)); b.queue.tick(b.now);
      }
      settle();
      b.queue.tick(b.now);
      settle();
      const auto next = b.queue.next_deadline();
      ASSERT_TRUE(!next || *next > b.now) << "seed " << seed << " step " << step;
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << step;
    }
    for (int round = 0; round < 400 && b.queue.pending() > 0; ++round) {
      for (std::size_t ends = b.granted.size(); ends > 0; --ends) one_ends(false);
      for (const ActorAdmitted& one : std::exchange(b.admitted, {})) b.queue.actor_gone(one.actor, one.restarts, b.now);
      if (any(2) == 0) worker_comes();
      answer_forward(false);
      settle();
      b.now += 50ms;
      b.queue.tick(b.now);
      settle();
    }
    ASSERT_EQ(b.queue.pending(), 0u) << "seed " << seed;
  }
}

/// After a task that waited: no further one before the lease has its CPUs back. (H.5, LQ-8)
TEST(LeaseQueue, LQ8_ALeaseThatLentItsCpusGoesOnOnlyWithThem) {
  Bench b(1);
  b.want(kDriver, 1, 1);
  const auto first = b.granted.at(0).lease;
  b.queue.worker_blocked(first.worker, first.lease_id, true, b.now);
  b.want(kOther, 1, 1);
  ASSERT_EQ(b.granted.size(), 2u);
  b.queue.worker_blocked(first.worker, first.lease_id, false, b.now);
  EXPECT_EQ(b.free_cpus(), -1) << "what waited goes on at once";
  EXPECT_EQ(b.queue.renew(first.lease_id, kDriver, b.now), 0u);
  b.collect();
  EXPECT_EQ(b.free_cpus(), 0);
  b.give_back(b.granted[1].lease.lease_id);
  b.want(kDriver, 1, 1);
  ASSERT_EQ(b.granted.size(), 3u);
  const auto third = b.granted[2].lease;
  b.queue.worker_blocked(third.worker, third.lease_id, true, b.now);
  EXPECT_EQ(b.queue.renew(third.lease_id, kOther, b.now), 0u) << "not its lease";
  const std::uint64_t number = b.queue.renew(third.lease_id, kDriver, b.now);  // overtakes the word that it goes on
  b.collect();
  EXPECT_NE(number, 0u);
  EXPECT_NE(number, third.lease_id);
  EXPECT_EQ(b.free_cpus(), 0);
  b.queue.worker_blocked(third.worker, third.lease_id, false, b.now);
  EXPECT_EQ(b.free_cpus(), 0);
  b.give_back(number);
  EXPECT_EQ(b.free_cpus(), 1);
}

/// However long the queue of who holds it: a queue of one's own is no reason to end. (LQ-8, TS-8)
TEST(LeaseQueue, LQ8_ALeaseEndsAtItsTermWhenOthersWait) {
  Bench b(1);
  b.want(kDriver, 1, 50);
  const auto first = b.granted.at(0).lease;
  const std::uint64_t number = b.queue.renew(first.lease_id, kDriver, b.now);
  EXPECT_NE(number, 0u) << "nobody else waits";
  b.want(kOther, 1, 50);
  EXPECT_EQ(b.queue.renew(number, kDriver, b.now), 0u);
  b.collect();
  ASSERT_EQ(b.granted.size(), 2u);
  EXPECT_EQ(b.granted[1].requester, kOther);
  EXPECT_EQ(b.queue.renew(b.granted[1].lease.lease_id, kOther, b.now), 0u);
  b.collect();
  ASSERT_EQ(b.granted.size(), 3u);
  EXPECT_EQ(b.granted[2].requester, kDriver);
}

TEST(LeaseQueue, LQ8_ALeaseEndsAtItsTermForAnotherClassOfItsOwner) {
  Bench b(1);
  b.want(kDriver, 1, 50);
  b.want(kDriver, 2, 2);
  std::vector<std::uint64_t> classes;
  for (int i = 0; i < 5; ++i) {
    const auto lease = b.granted.back().lease;
    classes.push_back(lease.request_id);
    EXPECT_EQ(b.queue.renew(lease.lease_id, kDriver, b.now), i < 4 ? 0u : lease.lease_id + 1);
    b.collect();
  }
  EXPECT_EQ(classes, (std::vector<std::uint64_t>{1, 2, 1, 2, 1})) << "then only one is left";
}

TEST(LeaseQueue, LQ8_ALeaseEndsAtItsTermWhenAnActorWaits) {
  Bench b(1);
  b.want(kDriver, 1, 50);
  b.queue.admit_actor({kDriver, 7}, 0, ResourceSet::from_map({{"CPU", 1}}), b.now);
  b.collect();
  EXPECT_TRUE(b.admitted.empty());
  EXPECT_EQ(b.queue.renew(b.granted.at(0).lease.lease_id, kDriver, b.now), 0u);
  b.collect();
  EXPECT_EQ(b.admitted.size(), 1u);
  EXPECT_EQ(b.granted.size(), 1u);
}

TEST(LeaseQueue, LQ7_WhatAnActorWaitsForIsKeptAsLeasesEnd) {
  Bench b(2);
  b.want(kDriver, 1, 50);
  ASSERT_EQ(b.granted.size(), 2u);
  b.queue.admit_actor({kDriver, 7}, 0, ResourceSet::from_map({{"CPU", 2}}), b.now);
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.granted.size(), 2u) << "half of what it needs";
  EXPECT_EQ(b.free_cpus(), 1);
  b.give_back(b.granted[1].lease.lease_id);
  EXPECT_EQ(b.admitted.size(), 1u);
  EXPECT_EQ(b.free_cpus(), 0);
}

TEST(LeaseQueue, LQ7_NothingIsKeptForLongNorForWhatOtherActorsHave) {
  Bench b(2);
  const auto tick = [&](Duration span) {
    b.now += span;
    b.queue.tick(b.now);
    b.collect();
  };
  b.want(kDriver, 1, 50);
  b.queue.admit_actor({kDriver, 7}, 0, ResourceSet::from_map({{"CPU", 2}}), b.now);
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.granted.size(), 2u);
  EXPECT_EQ(b.queue.next_deadline(), b.now + 500ms);
  tick(500ms);
  EXPECT_EQ(b.granted.size(), 3u) << "tasks go on";
  EXPECT_TRUE(b.denied.empty()) << "only tasks are in its way";
  tick(1499ms);
  EXPECT_TRUE(b.denied.empty());
  tick(1ms);
  EXPECT_EQ(b.denied.size(), 1u);

  b.queue.admit_actor({kDriver, 8}, 0, ResourceSet::from_map({{"CPU", 1}}), b.now);
  b.give_back(b.granted[1].lease.lease_id);
  ASSERT_EQ(b.admitted.size(), 1u);
  b.queue.admit_actor({kDriver, 9}, 0, ResourceSet::from_map({{"CPU", 2}}), b.now);
  b.give_back(b.granted[2].lease.lease_id);
  EXPECT_EQ(b.granted.size(), 4u) << "an actor has one of the two";
  tick(500ms);
  EXPECT_EQ(b.denied.size(), 2u);
}

/// Such an actor outlives its job: its daemon forgets those that do not. Without a word of it the head would wait for
/// ever.
TEST(LeaseQueue, AnActorThatWaitsIsToldOfAlsoWhenItsJobHasEnded) {
  Bench b(1);
  b.want(kOther, 1, 50, 1, 2);
  b.actor(7, 1);
  b.queue.job_ended(1, {}, b.now);
  b.collect();
  b.tick(500ms);
  b.tick(1500ms);
  EXPECT_EQ(b.admitted.size() + b.denied.size(), 1u);
}

TEST(LeaseQueue, LQ7_WhatIsKeptForAnActorIsNotForALaterOne) {
  Bench b(2);
  b.want(kDriver, 1, 50);
  b.actor(7, 2);
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.free_cpus(), 1);
  EXPECT_EQ(b.queue.room().cpu, 0) << "nor do others send anything here for it";
  b.actor(8, 1);
  EXPECT_TRUE(b.admitted.empty());
  b.give_back(b.granted[1].lease.lease_id);
  ASSERT_EQ(b.admitted.size(), 1u);
  EXPECT_EQ(b.admitted[0].actor, (ActorId{Bench::kDriverProcess, 7}));
}

TEST(LeaseQueue, LQ7_PiecesOfGpusThatActorsHaveAreNoPlace) {
  Bench b(2, 2);
  b.actor(7, 0, 0.6);
  b.actor(8, 0, 0.6);
  ASSERT_EQ(b.admitted.size(), 2u);
  ASSERT_NE(b.admitted[0].gpu_ids, b.admitted[1].gpu_ids);
  b.want(kDriver, 1, 50);
  b.actor(9, 1, 0.5);
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.free_cpus(), 0) << "no CPU is kept for it";
  b.tick(500ms);
  EXPECT_EQ(b.denied.size(), 1u) << "the head may try elsewhere";
}

/// Two GPUs of which 0.4 are free each: no place for half a one, in sum though they would be.
TEST(LeaseQueue, LQ14_NothingWaitsAtPiecesOfGpus) {
  Bench b(8, 2);
  wire::LeaseWanted w = b.request(kDriver, 1, 2, 0);
  w.lease_class.resources.gpus = 0.6;
  b.queue.wanted(w, b.now);
  b.collect();
  ASSERT_EQ(b.granted.size(), 2u);
  EXPECT_EQ(b.queue.room().gpu, to_fixed(0.4)) << "what other nodes and the head are told";
  wire::ClusterView view = two_nodes(2, 2, 1);
  for (wire::NodeInfo& info : view.nodes) info.resources["GPU"] = info.available["GPU"] = 2;
  b.queue.view_delta(view, b.now);
  w = b.request(kOther, 1, 1, 0);
  w.lease_class.resources.gpus = 0.5;
  b.queue.wanted(w, b.now);
  b.collect();
  ASSERT_EQ(b.forwards.size(), 1u);
  EXPECT_EQ(b.forwards[0].node, 2u);
}

TEST(LeaseQueue, LQ13_ARequestOutlivesItsJobWithItsRequester) {
  Bench b(1);
  b.want(kOther, 1, 2);
  b.want(kDriver, 2, 1);
  b.queue.job_ended(1, {kOther}, b.now);
  b.collect();
  EXPECT_EQ(b.queue.pending(), 1u) << "the actor's, which nobody told that it was gone";
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.leases_of(kOther), 2u);
}

TEST(LeaseQueue, LQ13_WhatAnotherNodePassedOnIsGivenBackWhereItIsForgotten) {
  Bench b(1);
  wire::LeaseWanted w = b.request({2, 7}, 4, 3);
  w.hops = 1;
  b.queue.wanted(w, b.now);
  b.collect();
  ASSERT_EQ(b.counted.size(), 1u);
  b.queue.job_ended(1, {}, b.now);
  b.collect();
  ASSERT_EQ(b.counted.size(), 2u);
  EXPECT_EQ(b.counted[1].node, 2u);
  EXPECT_EQ(b.counted[1].counted.given_back, 2u);
}

/// The requester fails what it has queued, and asks anew for what it gets later.
TEST(LeaseQueue, LQ4_WhatAnotherNodeRefusesIsOverHereToo) {
  Bench b(2);
  b.want(kOther, 1, 2);
  b.queue.view_delta(two_nodes(0, 2, 1), b.now);
  b.want(kDriver, 1, 1);
  ASSERT_EQ(b.forwards.size(), 1u);
  LeaseQueueOptions options = Bench::options(2, 0, 512);
  options.node = 2;
  Bench there(options);
  there.fork = false;
  there.queue.wanted(b.forwards[0].wanted, there.now);
  there.queue.worker_failed(worker_kind(1, {}), ErrorRecord{}, there.now);
  there.collect();
  ASSERT_EQ(there.refused.size(), 1u);
  ASSERT_EQ(there.counted.size(), 1u);
  EXPECT_EQ(there.counted[0].node, 1u);
  b.queue.counted(there.counted[0].counted, b.now);
  b.collect();
  EXPECT_EQ(b.queue.pending(), 0u);
  EXPECT_EQ(b.forwards.size(), 1u) << "it is not passed on again";
  b.want(kDriver, 1, 1);
  EXPECT_EQ(b.forwards.size(), 2u) << "it waited for what node 2 had forgotten";
}

TEST(LeaseQueue, LQ8_ALeaseEndsAtItsTermForWhatMustRunOnThisVeryNode) {
  LeaseQueueOptions options = Bench::options(2, 0, 512);
  options.node_id = "n1";
  Bench b(options);
  b.want(kDriver, 1, 2);
  b.queue.view_delta(two_nodes(0, 2, 1), b.now);
  wire::LeaseWanted w = b.request(kOther, 1, 1);
  w.lease_class.scheduling = NodeAffinity{"n1", false};
  b.queue.wanted(w, b.now);
  b.collect();
  ASSERT_EQ(b.leases_of(kOther), 0u);
  b.terms_end(kDriver);
  EXPECT_EQ(b.leases_of(kOther), 1u);
}

/// A lease whose CPUs are lent gives none back at its end.
TEST(LeaseQueue, LQ10_WhatIsLentIsNotFreedOnceMore) {
  Bench b(3);
  b.want(kDriver, 1, 1, 2);
  ASSERT_EQ(b.granted.size(), 1u);
  b.queue.worker_blocked(b.granted[0].lease.worker, b.granted[0].lease.lease_id, true, b.now);
  b.granted.clear();
  b.want(kDriver, 2, 1000);
  ASSERT_EQ(b.granted.size(), 3u);
  b.want(kOther, 3, 1, 2);
  for (int i = 0; i < 20 && b.leases_of(kOther) == 0; ++i) {
    b.tick(100ms);
    const auto one = std::ranges::find(b.granted, kDriver, &Granted::requester);
    ASSERT_NE(one, b.granted.end());
    const std::uint64_t lease = one->lease.lease_id;
    b.granted.erase(one);
    b.give_back(lease);
  }
  EXPECT_EQ(b.leases_of(kOther), 1u) << "two CPUs come one by one: they are to be kept for it";
}

/// A class that comes and goes, as one whose results are awaited one by one, is not new each time.
TEST(LeaseQueue, ALongQueueIsNotPassedOverForClassesThatAskAfresh) {
  Bench b(1);
  b.want(kDriver, 1, 50);
  b.want(kDriver, 2, 1);
  b.want(kDriver, 3, 1);
  std::map<std::uint64_t, int> turns;
  for (int i = 0; i < 30; ++i) {
    const auto lease = b.granted.back().lease;
    turns[lease.request_id]++;
    EXPECT_EQ(b.queue.renew(lease.lease_id, kDriver, b.now), 0u);
    b.collect();
    if (lease.request_id != 1) b.want(kDriver, lease.request_id, 1);
  }
  for (std::uint64_t id : {1, 2, 3}) EXPECT_EQ(turns[id], 10) << id;
}

TEST(LeaseQueue, LQ8_ALeaseDoesNotEndForWhatItCannotHelp) {
  Bench b(2, 1);
  b.want(kDriver, 1, 50);
  const auto renewed = [&] {
    const auto lease = b.queue.renew(b.granted[0].lease.lease_id, kDriver, b.now);
    if (lease != 0) b.granted[0].lease.lease_id = lease;
    b.collect();
    return lease != 0;
  };
  b.want(kOther, 1, 1, 9);  // larger than any node
  EXPECT_TRUE(renewed());
  wire::LeaseWanted elsewhere = b.request(kOther, 2, 1);
  elsewhere.lease_class.labels.match = {{"zone", "b"}};
  b.queue.view_delta(two_nodes(2, 0, 1), b.now);
  wire::LeaseWanted there = b.request(kOther, 3, 1);
  there.lease_class.scheduling = NodeAffinity{"n2", false};
  b.queue.wanted(there, b.now);
  b.collect();
  EXPECT_EQ(b.queue.pending(), 48u + 1 + 1);
  EXPECT_TRUE(renewed());
  b.actor(7, 0, 1);
  ASSERT_EQ(b.admitted.size(), 1u);
  b.actor(8, 0, 1);  // an actor has the GPU, and this lease none
  EXPECT_TRUE(renewed());
  b.want(kOther, 4, 1);
  EXPECT_FALSE(renewed());
}

TEST(LeaseQueue, LQ10_WhatNeedsMoreThanOneLeaseFreesIsKeptForATime) {
  Bench b(2);
  b.want(kDriver, 1, 1000);
  b.want(kOther, 1, 3, 2);
  EXPECT_EQ(b.leases_of(kOther), 0u);
  const auto one_ends = [&] {  // never two at once
    const auto it = std::ranges::find(b.granted, kDriver, &Granted::requester);
    if (it == b.granted.end()) return;
    const std::uint64_t lease = it->lease.lease_id;
    b.granted.erase(it);
    b.give_back(lease);
  };
  for (int i = 0; i < 4; ++i) {
    b.tick(100ms);
    one_ends();
    EXPECT_EQ(b.leases_of(kDriver), 2u) << "not at once";
  }
  b.tick(100ms);
  one_ends();
  EXPECT_EQ(b.leases_of(kDriver), 1u);
  EXPECT_EQ(b.queue.room().cpu, 0);
  EXPECT_EQ(b.free_cpus(), 1);
  b.tick(100ms);
  one_ends();
  ASSERT_EQ(b.leases_of(kOther), 1u);
  b.terms_end(kOther);
  EXPECT_EQ(b.leases_of(kDriver), 2u) << "it is kept for nobody who has just had a place";
}

TEST(LeaseQueue, LQ10_NothingIsKeptAllTheTime) {
  Bench b(2);
  b.want(kDriver, 1, 1000);
  b.want(kOther, 1, 3, 2);
  const std::uint64_t first = b.granted[0].lease.lease_id;
  b.tick(500ms);
  b.give_back(first);
  EXPECT_EQ(b.free_cpus(), 1) << "it is kept";
  b.tick(500ms);
  EXPECT_EQ(b.free_cpus(), 0) << "the other lease has not ended: tasks go on";
  ASSERT_TRUE(b.queue.next_deadline().has_value());
  EXPECT_EQ(*b.queue.next_deadline(), b.now + 500ms);
  b.give_back(b.granted[2].lease.lease_id);
  EXPECT_EQ(b.free_cpus(), 0);
  b.tick(500ms);
  b.give_back(b.granted[3].lease.lease_id);
  EXPECT_EQ(b.free_cpus(), 1);
  b.tick(500ms);
  EXPECT_EQ(b.free_cpus(), 1) << "twice as long as before";
  b.tick(500ms);
  EXPECT_EQ(b.free_cpus(), 0);
}

/// A claim elsewhere takes nothing of that: the tasks here last three seconds, and so it takes a time longer than half
/// of that.
TEST(LeaseQueue, LQ10_WhatIsClaimedElsewhereMeanwhileIsKeptHere) {
  Bench b(2);
  b.queue.view_delta(two_nodes(0, 0, 1), b.now);
  b.want(kDriver, 1, 1000);
  b.want(kOther, 1, 1, 2);
  std::map<std::uint64_t, TimePoint> ends{{b.granted.at(0).lease.lease_id, b.now + 1500ms},
                                          {b.granted.at(1).lease.lease_id, b.now + 3s}};
  std::map<TimePoint, wire::LeaseWanted> given_back;
  int claims = 0;
  for (int i = 0; i < 300 && b.leases_of(kOther) == 0; ++i) {
    b.tick(100ms);
    for (const auto& [lease, at] : std::map(ends))
      if (at <= b.now) ends.erase(lease), b.give_back(lease);
    for (const Forward& one : std::exchange(b.forwards, {})) {
      if (one.wanted.wanted == 0) continue;
      ++claims;
      given_back[b.now + std::chrono::milliseconds(one.wanted.claim_ms)] = one.wanted;
    }
    while (!given_back.empty() && given_back.begin()->first <= b.now) {
      const wire::LeaseWanted wanted = given_back.begin()->second;
      given_back.erase(given_back.begin());
      b.queue.counted({wanted.requester, wanted.request_id, 2, 0, 1}, b.now);
      b.collect();
    }
    for (const Granted& one : b.granted)
      if (one.requester == kDriver && one.lease.lease_id > 2) ends.try_emplace(one.lease.lease_id, b.now + 3s);
    std::erase_if(b.granted, [&](const Granted& one) { return one.requester == kDriver; });
  }
  EXPECT_EQ(b.leases_of(kOther), 1u);
  EXPECT_GE(claims, 2);
}

/// One that nothing helps for an hour is no reason to keep nothing for another.
TEST(LeaseQueue, LQ10_TheyTakeTurns) {
  LeaseQueueOptions options = Bench::options(2, 0, 512);
  options.total.custom = {{"x", 2 * kUnit}};
  Bench b(options);
  for (std::uint64_t id : {1, 2}) {
    wire::LeaseWanted hour = b.request(kDriver, id, 1, 0);
    hour.lease_class.resources.custom = {{"x", 1}};
    b.queue.wanted(hour, b.now);
    b.collect();
  }
  ASSERT_EQ(b.granted.size(), 2u);
  b.granted.clear();
  wire::LeaseWanted hopeless = b.request(kDriver, 3, 1, 1);
  hopeless.lease_class.resources.custom = {{"x", 2}};
  b.want(kDriver, 4, 1000);
  b.queue.wanted(hopeless, b.now);
  b.collect();
  b.want(kOther, 1, 1, 2);
  for (int i = 0; i < 40 && b.leases_of(kOther) == 0; ++i) {
    b.tick(100ms);
    const auto it = std::ranges::find(b.granted, kDriver, &Granted::requester);
    if (it == b.granted.end()) continue;
    const std::uint64_t lease = it->lease.lease_id;
    b.granted.erase(it);
    b.give_back(lease);
  }
  EXPECT_EQ(b.leases_of(kOther), 1u);
}

/// The whole of another node is had by tasks that are submitted elsewhere, and who waits for it waits here.
TEST(LeaseQueue, LQ11_TurnsAreTakenBetweenNodes) {
  Bench b(0);
  b.queue.view_delta(two_nodes(0, 0, 1), b.now);
  b.want(kDriver, 1, 5);
  b.collect();
  EXPECT_TRUE(b.forwards.empty()) << "it has no room";
  ASSERT_EQ(b.queue.next_deadline(), b.now + 500ms);
  b.tick(500ms);
  ASSERT_EQ(b.forwards.size(), 1u);
  EXPECT_EQ(b.forwards[0].node, 2u);
  EXPECT_EQ(b.forwards[0].wanted.wanted, 1u);
  EXPECT_EQ(b.forwards[0].wanted.claim_ms, 1000u);
  b.tick(500ms);
  EXPECT_EQ(b.forwards.size(), 1u) << "one at a time";

  Bench there(2);
  const ProcessId local{1, 9}, remote{2, 7};  // as that node sees them
  there.want(local, 1, 50);
  const auto comes = [&](wire::LeaseWanted claim) {
    claim.requester = remote;
    there.queue.wanted(claim, there.now);
    there.collect();
  };
  comes(b.forwards[0].wanted);
  there.tick(100ms);
  EXPECT_TRUE(there.counted.empty()) << "it waits for its turn";
  there.terms_end(local);
  EXPECT_EQ(there.leases_of(remote), 1u);
  EXPECT_EQ(there.leases_of(local), 1u);
  ASSERT_EQ(there.counted.size(), 1u);
  EXPECT_EQ(there.counted[0].counted.granted, 1u);

  b.queue.counted({kDriver, 1, 2, 1, 0}, b.now);
  b.tick(500ms);
  EXPECT_EQ(b.forwards.size(), 2u) << "the next one";
  comes(b.forwards[1].wanted);
  there.tick(1s);
  ASSERT_EQ(there.counted.size(), 2u) << "the tasks there last long";
  EXPECT_EQ(there.counted[1].counted.given_back, 1u);
}

TEST(LeaseQueue, LQ11_AClaimIsTakenBackWhenItsOwnNodeHasRoom) {
  Bench b(1);
  b.queue.view_delta(two_nodes(1, 0, 1), b.now);
  b.want(kOther, 1, 1);
  ASSERT_EQ(b.granted.size(), 1u);
  b.want(kDriver, 1, 1);
  b.tick(500ms);
  ASSERT_EQ(b.forwards.size(), 1u);
  EXPECT_EQ(b.queue.pending(), 0u);
  b.give_back(b.granted[0].lease.lease_id);
  EXPECT_EQ(b.leases_of(kDriver), 1u);
  ASSERT_EQ(b.forwards.size(), 2u);
  EXPECT_EQ(b.forwards[1].wanted.wanted, 0u);
}

/// Its launcher does not answer, say.
TEST(LeaseQueue, LQ12_WhoGetsNoWorkersHoldsUpNobody) {
  Bench b(2);
  b.want(kDriver, 1, 50, 1, 1);
  ASSERT_EQ(b.leases_of(kDriver), 2u);
  b.fork = false;
  b.want(kOther, 1, 50, 1, 2);
  for (int i = 0; i < 8; ++i) {
    b.terms_end(kDriver);
    EXPECT_GE(b.leases_of(kDriver), 1u) << "it takes no more than one place ahead of its workers";
    b.tick(100ms);
  }
  b.tick(200ms);
  EXPECT_EQ(b.leases_of(kDriver), 2u) << "and not for longer than a second";
  for (int i = 0; i < 8; ++i) {
    b.terms_end(kDriver);
    EXPECT_EQ(b.leases_of(kDriver), 2u);
    b.tick(1s);
  }
  b.queue.worker_ready({1, 77}, 1, worker_kind(2, {}), b.now);
  b.terms_end(kDriver);
  EXPECT_EQ(b.leases_of(kOther), 1u) << "one has come at last";
}

}  // namespace
}  // namespace troupe::sched

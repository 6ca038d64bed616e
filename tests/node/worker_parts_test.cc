// How workers are kept and let go, where light actors go, and when the store may forget the dead: the parts alone.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <set>

#include "core/node/daemon/workers/actor_hosts.h"
#include "core/node/daemon/deaths/death_acks.h"
#include "core/node/daemon/deaths/oom_kills.h"
#include "core/node/daemon/workers/actor_starts.h"
#include "core/node/daemon/workers/forwarded_leases.h"
#include "core/node/daemon/workers/job_cleanup.h"
#include "core/node/daemon/workers/workers.h"
#include "tests/base/temporary_folder.h"
#include "tests/node/fake_messenger.h"

namespace troupe::node::test {
namespace {

using namespace std::chrono_literals;

TEST(WorkerStock, NDW1_ARequestTakesAForkOfTheStockOrOneOfItsOwn) {
  WorkerStock stock(4);
  EXPECT_EQ(stock.missing(1, 1), 3);
  for (int i = 0; i < 3; ++i) stock.begun(1);
  EXPECT_EQ(stock.missing(1, 1), 0);
  EXPECT_EQ(stock.claim(1, 2), 2);   // both are on their way
  EXPECT_EQ(stock.claim(1, 2), 1);   // one more is; one fork is its own
  EXPECT_EQ(stock.claim(1, 1), 0);
  stock.ready(1);                    // one that was claimed: nothing below zero
  EXPECT_EQ(stock.starting(1), 0);
  EXPECT_EQ(stock.missing(2, 0), 4) << "another job's stock is its own";
  EXPECT_EQ(WorkerStock(0).size(), 1);
  EXPECT_EQ(WorkerStock(1000).size(), kStockMax);
}

// The first worker that was killed by hand on a machine that had killed for lack of memory before counted as one of
// these, and had that budget.
TEST(OomKills, OOK1_WhatWasCountedBeforeIsNobodysDeathHere) {
  std::uint64_t count = 5;
  OomKills kills([&] { return count; });
  EXPECT_FALSE(kills.claim({}));
  count = 6;
  EXPECT_TRUE(kills.claim({}));
}

TEST(OomKills, OOK2_EachKillExplainsOneDeath) {
  std::uint64_t count = 0;
  OomKills kills([&] { return count; });
  const OomKills::TimePoint now;
  count = 2;                            // two are killed at once,
  kills.look(now);                      // and the exit of a third is heard of first
  EXPECT_TRUE(kills.claim(now));
  EXPECT_TRUE(kills.claim(now + 4s));
  EXPECT_FALSE(kills.claim(now + 4s)) << "a third was killed by somebody";
  count = 3;
  kills.look(now + 10s);
  EXPECT_FALSE(kills.claim(now + 16s)) << "that one was no process of this node";
}

TEST(ActorHosts, AH1_CountsFollowWhateverTheOrder) {
  ActorHosts hosts;
  const ProcessId a{1, 1}, b{1, 2};
  const ActorKey x{{{1, 9}, 1}, 0}, y{{{1, 9}, 2}, 0}, z{{{1, 9}, 3}, 0};
  hosts.add(x, a);
  hosts.add(y, a);
  hosts.add(z, b);
  EXPECT_EQ(hosts.count(a), 2u);
  hosts.add(y, b);  // it moved
  EXPECT_EQ(hosts.count(a), 1u);
  EXPECT_EQ(hosts.count(b), 2u);
  EXPECT_TRUE(hosts.remove(z));
  EXPECT_FALSE(hosts.remove(z));
  EXPECT_EQ(hosts.remove_host(b), std::vector<ActorKey>{y});
  EXPECT_EQ(hosts.count(b), 0u);
  EXPECT_TRUE(hosts.remove(x));
  EXPECT_EQ(hosts.count(a), 0u);
}

TEST(DeathAcks, DA2_TheStoreForgetsOnceAllPeersHaveDrainedOrTheWaitIsOver) {
  DeathAcks acks;
  const ProcessId dead{1, 1}, p{1, 2}, q{1, 3};
  EXPECT_TRUE(acks.died(dead, {}, false)) << "nobody has to drain it";
  EXPECT_FALSE(acks.died(dead, {p, q}, false));
  EXPECT_FALSE(acks.acked(dead, p));
  EXPECT_FALSE(acks.acked(dead, p));
  EXPECT_TRUE(acks.acked(dead, q));
  EXPECT_FALSE(acks.acked(dead, q)) << "said once";
  EXPECT_FALSE(acks.died(dead, {p}, false));
  EXPECT_TRUE(acks.waited_enough(dead));
  EXPECT_FALSE(acks.waited_enough(dead));
}

// The processes of a job end together: none waits for the acknowledgement of another that was killed as well.
TEST(DeathAcks, DA2_WhoIsDeadItselfIsNotWaitedFor) {
  DeathAcks acks;
  const ProcessId driver{1, 1}, p{1, 2}, q{1, 3};
  EXPECT_FALSE(acks.died(driver, {p, q}, false));
  EXPECT_FALSE(acks.died(p, {q}, false));
  EXPECT_TRUE(acks.peer_died(p).empty());
  EXPECT_EQ(acks.peer_died(q), (std::vector<ProcessId>{driver, p}));
  EXPECT_TRUE(acks.peer_died(q).empty()) << "said once";
  EXPECT_FALSE(acks.died(driver, {p}, true));
  EXPECT_TRUE(acks.peer_died(p).empty()) << "it may still write";
  EXPECT_TRUE(acks.ended(driver));
}

// REVIEW B.13: one that the kernel holds in an uninterruptible wait may write into pages that were given to others.
TEST(DeathAcks, DA2_NotBeforeItHasEndedInTruth) {
  DeathAcks acks;
  const ProcessId dead{1, 1}, p{1, 2};
  EXPECT_FALSE(acks.died(dead, {p}, true));
  EXPECT_FALSE(acks.waited_enough(dead));
  EXPECT_TRUE(acks.ended(dead));
  EXPECT_FALSE(acks.died(dead, {p}, true));
  EXPECT_FALSE(acks.ended(dead));
  EXPECT_TRUE(acks.acked(dead, p));
  EXPECT_FALSE(acks.died(dead, {}, true));
  EXPECT_TRUE(acks.ended(dead));
}

/// Workers with nothing beneath them that runs.
class WorkersTest : public ::testing::Test {
 protected:
  WorkersTest() { leases_.set_actions({[](auto&) {}, [](auto&) {}, [](auto&) {}, [](auto&) {}, [](auto&) {}, [] {}}); }
  static sched::LeaseQueueOptions queue_options() {
    sched::LeaseQueueOptions options;
    options.total = sched::ResourceSet::from_map({{"CPU", 1}});
    return options;
  }
  ProcessId idle_worker() {
    NodeProcess& process = table_.add(wire::Role::kWorker, 7);
    process.state = NodeProcess::State::kAlive;
    process.kind = sched::worker_kind(7, {});
    leases_.queue().worker_ready(process.id, 1, process.kind, loop_->now() - 1min);
    return process.id;
  }
  /// One lease of a worker of job 7.
  static wire::LeaseWanted one_cpu(ProcessId requester) {
    wire::LeaseWanted wanted;
    wanted.requester = requester;
    wanted.request_id = 1;
    wanted.lease_class.job = 7;
    wanted.lease_class.resources.cpus = 1;
    wanted.wanted = 1;
    return wanted;
  }
  std::unique_ptr<Loop> loop_ = Loop::create().value();
  ProcessTable table_{1};
  FakeMessenger messenger_;
  Jobs jobs_{messenger_};
  Leases leases_{*loop_, messenger_, queue_options()};
  LogPumps logs_{*loop_, "/nonexistent", [](ProcessId, wire::LogLines) {}};
  ProcessEnds ends_{*loop_, table_, leases_.queue(), WorkerHome::kProcesses, [](ProcessId) {}};
  Launchers launchers_{*loop_, jobs_, {}, nullptr, {}};
  Workers workers_{
      {*loop_, table_, messenger_, jobs_, leases_, launchers_, ends_, logs_}, 1, WorkerHome::kProcesses, "node", {}};
};

// REVIEW A.3: at f0736ec such a worker was unlisted, asked by a notice that it ignored, and never leased or asked
// again.
TEST_F(WorkersTest, WK2_AWorkerThatRefusesToRetireIsIdleAgain) {
  const ProcessId kept = idle_worker(), retired = idle_worker(), stays = idle_worker();
  workers_.retire_idle();
  ASSERT_EQ(messenger_.requests.size(), 2u) << "one CPU: a stock of one";
  EXPECT_EQ(messenger_.requests[0].to, kept);
  EXPECT_EQ(messenger_.requests[1].to, retired);
  EXPECT_EQ(leases_.queue().workers().state(kept), "") << "no lease goes to it while it decides";
  messenger_.requests[0].done(make_error<Error>("others hold what it owns"));
  messenger_.requests[1].done(Messenger::Bytes{});
  EXPECT_EQ(leases_.queue().workers().state(kept), "IDLE");
  EXPECT_FALSE(table_.find(kept)->expected) << "a crash of it is a crash";
  EXPECT_EQ(leases_.queue().workers().state(retired), "");
  EXPECT_TRUE(table_.find(retired)->expected);
  EXPECT_EQ(leases_.queue().workers().state(stays), "IDLE");
}

TEST_F(WorkersTest, WK2_OneThatDoesNotAnswerOrDiesMeanwhileIsNoWorkerTwice) {
  const ProcessId silent = idle_worker(), dying = idle_worker();
  (void)idle_worker();
  workers_.retire_idle();
  ASSERT_EQ(messenger_.requests.size(), 2u);
  messenger_.requests[0].done(make_error<GetTimeoutError>("no answer"));
  table_.find(dying)->state = NodeProcess::State::kDying;
  messenger_.requests[1].done(make_error<WorkerCrashedError>("it died"));
  EXPECT_EQ(leases_.queue().workers().state(silent), "") << "it may find the question yet, and obey";
  EXPECT_EQ(leases_.queue().workers().state(dying), "");
  ASSERT_EQ(messenger_.requests.size(), 3u);
  EXPECT_EQ(messenger_.requests[2].to, silent);
  messenger_.requests[2].done(make_error<Error>("others hold what it owns"));
  EXPECT_EQ(leases_.queue().workers().state(silent), "IDLE");
  EXPECT_EQ(leases_.queue().audit(), "");
}

/// A launcher that stands still, as it does where memory is short, tells of an end late. At 74e026e the death was told
/// without it after 0.7 s: a kill for lack of memory was a crash, and explained the next SIGKILL.
TEST(ProcessEndsTest, TheStatusOfAProcessThatHasEndedIsWaitedFor) {
  TimePoint time{};
  auto loop = Loop::create([&] { return time; }).value();
  ProcessTable table{1};
  sched::LeaseQueue leases{{}};
  std::vector<ProcessId> dead;
  std::optional<int> status;
  ProcessEnds ends{*loop, table, leases, WorkerHome::kProcesses, [&](ProcessId id) {
                     if (const auto gone = table.remove(id)) dead.push_back(id), status = gone->wait_status;
                   }};
  NodeProcess& process = table.add(wire::Role::kWorker, 7);
  process.state = NodeProcess::State::kAlive;
  const int pid = ::fork();
  if (pid == 0) ::_exit(0);
  process.pidfd = UniqueFd(int(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{process.pidfd.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&ended, 1, 60'000), 1);
  const auto pass = [&](Duration by) {
    for (Duration left = by; left > Duration::zero(); left -= 100ms) time += 100ms, loop->pass();
  };
  ends.closing(process);
  pass(3s);
  EXPECT_EQ(dead, std::vector<ProcessId>{});
  NodeProcess& untold = table.add(wire::Role::kWorker, 7);  // one that the launcher never tells of
  untold.pidfd = UniqueFd(::dup(process.pidfd.get()));
  NodeProcess& held = table.add(wire::Role::kWorker, 7);  // and one that does not end
  held.pidfd = UniqueFd(int(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  const ProcessId known_id = process.id, untold_id = untold.id, held_id = held.id;
  ends.exited(process, SIGKILL);
  EXPECT_EQ(dead, std::vector<ProcessId>{known_id});
  EXPECT_EQ(status, SIGKILL);

  untold.state = held.state = NodeProcess::State::kAlive;
  ends.closing(untold), ends.closing(held);
  pass(1s);
  EXPECT_EQ(dead, (std::vector<ProcessId>{known_id, held_id}));
  pass(5s);
  EXPECT_EQ(dead, (std::vector<ProcessId>{known_id, held_id, untold_id}));
  ::waitpid(pid, nullptr, 0);
}

/// What outlives its job is told of, and what does not gives back what it has.
TEST_F(WorkersTest, AS1_AStartThatIsKeptBeyondItsJobIsAnsweredAndTheOthersLeaveNothing) {
  ActorStarts starts({*loop_, table_, messenger_, jobs_, leases_, workers_, logs_}, "node");
  leases_.set_actions({[](auto&) {}, [](auto&) {},
                       [&](const sched::ActorAdmitted& one) {
                         starts.admitted({one.actor, one.restarts}, one.gpu_ids);
                       },
                       [&](const sched::ActorNotAdmitted& one) {
                         starts.not_admitted({one.actor, one.restarts}, one.reason);
                       },
                       [](auto&) {}, [] {}});
  jobs_.add(7);
  idle_worker();
  wire::LeaseWanted task;  // it has the one CPU
  task.requester = {1, 50};
  task.request_id = 1;
  task.lease_class.job = 7;
  task.wanted = 1;
  leases_.queue().wanted(task, loop_->now());
  (void)leases_.queue().take_effects();
  ASSERT_EQ(leases_.queue().resources().available().cpu, 0);
  const auto start = [&](std::uint64_t number, Isolation isolation) {
    wire::StartActor message;
    message.spec.id = {{1, 50}, number};
    message.spec.job = 7;
    message.spec.isolation = isolation;
    message.spec.resources.cpus = 1;
    starts.start(std::move(message));
    return ActorId{{1, 50}, number};
  };
  const ActorId kept = start(1, Isolation::kProcess);
  start(2, Isolation::kProcess);
  starts.job_ended(7, {kept});
  leases_.queue().job_ended(7, {}, loop_->now());
  leases_.apply();
  EXPECT_EQ(leases_.queue().pending(), 1u) << "the kept one";
  leases_.queue().tick(loop_->now() + 3s);
  leases_.apply();
  leases_.queue().tick(loop_->now() + 6s);
  leases_.apply();
  EXPECT_EQ(std::ranges::count(messenger_.notices, wire::Method::kStartActorFailed, &FakeMessenger::Sent::method), 1);
}

/// Let in, and waiting for a process that it shares: there is nobody else who would give back its CPU.
TEST_F(WorkersTest, AS2_ALightActorThatWaitsForItsHostGivesBackWhatItHasWhenItsJobEnds) {
  ActorStarts starts({*loop_, table_, messenger_, jobs_, leases_, workers_, logs_}, "node");
  leases_.set_actions({[](auto&) {}, [](auto&) {},
                       [&](const sched::ActorAdmitted& one) {
                         starts.admitted({one.actor, one.restarts}, one.gpu_ids);
                       },
                       [](auto&) {}, [](auto&) {}, [] {}});
  jobs_.add(7);
  NodeProcess& host = table_.add(wire::Role::kWorker, 7);
  host.state = NodeProcess::State::kStarting;
  host.light_host = true;
  wire::StartActor message;
  message.spec.id = {{1, 50}, 1};
  message.spec.job = 7;
  message.spec.isolation = Isolation::kLight;
  message.spec.resources.cpus = 1;
  starts.start(std::move(message));
  ASSERT_EQ(leases_.queue().resources().available().cpu, 0);
  starts.job_ended(7, {});
  EXPECT_EQ(leases_.queue().resources().available().cpu, sched::kUnit);
}

/// The creator's node may be dead: it was asked, again and again.
TEST_F(WorkersTest, AS3_TheImageIsAskedForWhereTheHeadSaysThatItIs) {
  ActorStarts starts({*loop_, table_, messenger_, jobs_, leases_, workers_, logs_}, "node");
  wire::StartActor start;
  start.spec.id = {{2, 9}, 1};
  start.spec.creator = {2, 9};
  start.spec.job = 7;
  start.image_at = 3;
  starts.start(start);
  ASSERT_EQ(messenger_.requests.size(), 1u);
  EXPECT_EQ(messenger_.requests[0].method, wire::Method::kJobImage);
  EXPECT_EQ(messenger_.requests[0].to, daemon_of(3));
  messenger_.requests[0].done(make_error<NotFoundError>("job 7 is not known on node c"));
  ASSERT_EQ(messenger_.notices.size(), 1u);
  const auto failed = wire::decode_message<wire::StartActorFailed>(messenger_.notices[0].payload).value();
  EXPECT_TRUE(failed.retry_elsewhere);
  EXPECT_EQ(failed.error.code, ErrorCode::kRuntimeEnv) << "AC-9: no lack of room";
}

TEST_F(WorkersTest, AS1_AStartWithoutItsProgramSaysWhichProgramThatIs) {
  ActorStarts starts({*loop_, table_, messenger_, jobs_, leases_, workers_, logs_}, "node");
  jobs_.add(7).image.executable = "/somewhere/program";
  wire::StartActor start;
  start.spec.id = {{1, 9}, 1};
  start.spec.job = 7;
  starts.start(start);
  starts.admitted({start.spec.id, 0}, {});
  ASSERT_EQ(messenger_.notices.size(), 1u);
  const auto failed = wire::decode_message<wire::StartActorFailed>(messenger_.notices[0].payload).value();
  EXPECT_TRUE(failed.retry_elsewhere);
  EXPECT_NE(failed.error.message.find("/somewhere/program"), std::string::npos) << failed.error.message;
}

/// Requests that other daemons pass on, and the end of jobs.
class ForwardedLeasesTest : public WorkersTest {
 protected:
  void forward(ProcessId requester) {
    wire::LeaseWanted wanted = one_cpu(requester);
    wanted.hops = 1;
    forwarded_.wanted(wanted);
  }
  /// A request is in the queue, and has the one CPU.
  bool has_cpu() const { return leases_.queue().resources().available().cpu == 0; }
  void image_comes() {
    ASSERT_EQ(messenger_.requests.size(), 1u);
    messenger_.requests[0].done(wire::encode_message(wire::JobImageReply{7, kRequester, {}, {}, {}}));
  }
  void dies(ProcessId process) {
    wire::ProcessDied death;
    death.process = process;
    table_.remember(death);
  }
  static constexpr ProcessId kRequester{2, 1};
  std::set<std::uint32_t> dead_nodes_;
  ForwardedLeases forwarded_{{*loop_, table_, messenger_, jobs_, leases_},
                             [this](std::uint32_t node) { return dead_nodes_.contains(node); }};
};

TEST_F(ForwardedLeasesTest, WaitForTheImageOfTheirJob) {
  forward(kRequester);
  EXPECT_FALSE(has_cpu());
  image_comes();
  EXPECT_TRUE(has_cpu());
}

TEST_F(ForwardedLeasesTest, FWL1_OfWhoDiesWhileTheImageIsAwaitedAreDropped) {
  forward(kRequester);
  dies(kRequester);
  image_comes();
  EXPECT_FALSE(has_cpu());
}

TEST_F(ForwardedLeasesTest, FWL1_OfANodeThatDiesWhileTheImageIsAwaitedAreDropped) {
  forward(kRequester);
  dead_nodes_.insert(kRequester.node);
  image_comes();
  EXPECT_FALSE(has_cpu());
}

/// The requester's daemon tells of its death on another way than the one that the request took.
TEST_F(ForwardedLeasesTest, FWL1_OfWhoIsDeadAlreadyAreDroppedAndNoImageIsAskedFor) {
  dies(kRequester);
  forward(kRequester);
  EXPECT_TRUE(messenger_.requests.empty());
  jobs_.add(7);
  forward(kRequester);
  EXPECT_FALSE(has_cpu());
}

/// What of a job stays on a node that did not know it when it ended.
class JobCleanupTest : public WorkersTest {
 protected:
  void ends(std::vector<ActorId> kept = {}) { cleanup_.end({7, "its driver returned 0", {}, std::move(kept)}); }
  void with() {
    jobs_.with(7, kDriver, [this](Job* job) { told_.push_back(job != nullptr); });
  }
  void image_comes(std::size_t request = 0) {
    ASSERT_GT(messenger_.requests.size(), request);
    messenger_.requests[request].done(wire::encode_message(wire::JobImageReply{7, kDriver, {}, {}, {}}));
  }
  static constexpr ProcessId kDriver{2, 1};
  std::vector<bool> told_;  // whether it was known, once for each with()
  LightHosts light_hosts_{table_, messenger_, jobs_, workers_, 1, [](JobId) {}};
  ActorStarts starts_{{*loop_, table_, messenger_, jobs_, leases_, workers_, logs_}, "node"};
  JobCleanup cleanup_{
      {*loop_, table_, messenger_, jobs_, leases_, launchers_, workers_, light_hosts_, starts_, ends_},
      "no session of this machine", "node", JobCleanup::Decider::kHead};
};

TEST_F(JobCleanupTest, NJ2_TheImageOfAJobThatEndedMeanwhileIsDroppedAndWhoWaitedIsToldAtOnce) {
  with();
  with();
  ends();
  EXPECT_EQ(told_, (std::vector<bool>{false, false}));
  image_comes();
  EXPECT_EQ(jobs_.find(7), nullptr);
  EXPECT_EQ(told_.size(), 2u) << "NJ-1: once";
}

/// Of a daemon that has not heard of the end yet.
TEST_F(JobCleanupTest, NJ2_WhatComesAfterTheEndAsksForNoImage) {
  ends();
  with();
  EXPECT_TRUE(messenger_.requests.empty());
  EXPECT_EQ(told_, std::vector<bool>{false});
}

TEST_F(JobCleanupTest, NJ2_AJobThatWasKnownHereIsNotKnownAgain) {
  jobs_.add(7);
  ends();
  ASSERT_EQ(jobs_.find(7), nullptr);
  with();
  EXPECT_EQ(told_, std::vector<bool>{false});
}

TEST_F(JobCleanupTest, AJobThatLeavesActorsBehindIsAskedForUntilTheLastOfThemHasEnded) {
  with();
  ends({{kDriver, 1}});
  image_comes();
  EXPECT_NE(jobs_.find(7), nullptr);
  EXPECT_EQ(told_, std::vector<bool>{true});
  ends();
  EXPECT_EQ(jobs_.find(7), nullptr);
}

/// Copied to this node, or mounted, after the first actor of its job was sent here.
TEST_F(JobCleanupTest, NJ4_AProgramThatWasNotThereIsTriedAgainUntilItsJobHasEnded) {
  const troupe::test::TemporaryFolder folder;
  wire::JobImageReply reply{7, kDriver, {}, {}, {}};
  reply.image.executable = folder / "program";
  with();
  ASSERT_EQ(messenger_.requests.size(), 1u);
  messenger_.requests[0].done(wire::encode_message(reply));
  EXPECT_FALSE(jobs_.find(7)->executable);
  with();
  EXPECT_FALSE(jobs_.find(7)->executable);
  troupe::test::put(reply.image.executable, "a program");
  with();
  EXPECT_TRUE(jobs_.find(7)->executable);
  EXPECT_EQ(told_, (std::vector<bool>{true, true, true})) << "what is to run says itself what it lacks";
  EXPECT_EQ(messenger_.requests.size(), 1u);
  jobs_.find(7)->executable.reset();
  jobs_.find(7)->ended = true;
  with();
  EXPECT_FALSE(jobs_.find(7)->executable);
}

#if !defined(__SANITIZE_THREAD__)  // it makes vfork a fork: what exec said is lost
/// A copy that is not complete, or not executable yet, cost the actors of the job their lives.
TEST_F(JobCleanupTest, NJ4_AProgramThatDoesNotStartIsTriedAgainButWhereTheDriverRunsFromIt) {
  const troupe::test::TemporaryFolder folder;
  troupe::test::put(folder / "program", "half a program");
  Launchers launchers{*loop_, jobs_, {"session", folder.path(), "node", "node", 1}, nullptr, {}};
  for (const ProcessId driver : {kDriver, ProcessId{1, 1}}) {
    Job& job = jobs_.add(driver.node);
    job.driver = driver;
    job.image.executable = folder / "program";
    jobs_.with(job.id, driver, [](Job*) {});
    ASSERT_TRUE(job.executable);
    EXPECT_EQ(launchers.of(job), 0u);
    const bool elsewhere = driver == kDriver;
    EXPECT_EQ(launchers.given_up(job.id), !elsewhere);
    EXPECT_EQ(bool(job.executable), !elsewhere) << "it is opened anew";
  }
}
#endif

TEST_F(JobCleanupTest, NJ1_AnotherDaemonIsAskedWhereTheFirstOneFails) {
  const ProcessId third{3, 1};
  with();
  jobs_.with(7, third, [this](Job* job) { told_.push_back(job != nullptr); });
  with();
  ASSERT_EQ(messenger_.requests.size(), 1u);
  messenger_.requests[0].done(make_error<NotFoundError>("job 7 is not known on node b"));
  EXPECT_EQ(told_, (std::vector<bool>{false, false}));
  ASSERT_EQ(messenger_.requests.size(), 2u);
  EXPECT_EQ(messenger_.requests[1].to, daemon_of(3));
  image_comes(1);
  EXPECT_EQ(told_, (std::vector<bool>{false, false, true}));
}

/// Its word lay in the socket when the job's end killed it.
TEST_F(WorkersTest, DA4_AWorkerThatWasKilledWhileItStartedIsNotIdleLater) {
  jobs_.add(7);
  NodeProcess& process = table_.add(wire::Role::kWorker, 7);
  process.kind = sched::worker_kind(7, {});
  process.state = NodeProcess::State::kAlive;
  process.killed_by_us = true;
  workers_.ready(process);
  EXPECT_FALSE(leases_.queue().workers().idle_of(process.kind));
  process.killed_by_us = false;
  workers_.ready(process);
  EXPECT_EQ(leases_.queue().workers().idle_of(process.kind), process.id);
}

/// Without a word of the head the daemon ends the job by itself; the head's word counts when it comes.
TEST_F(JobCleanupTest, NJ2_TheHeadsWordThatSomethingIsKeptTakesTheEndBack) {
  ends();
  ends({{kDriver, 1}});
  with();
  image_comes();
  EXPECT_EQ(told_, std::vector<bool>{true});
}

TEST_F(JobCleanupTest, NJ3_TheLatestEndedJobsAreRemembered) {
  for (JobId job = 7; job < 7 + kJobsOverKept; ++job) jobs_.over(job);
  EXPECT_TRUE(jobs_.is_over(7));
  jobs_.over(7);
  EXPECT_TRUE(jobs_.is_over(7)) << "said twice, kept once";
  jobs_.over(7 + kJobsOverKept);
  EXPECT_FALSE(jobs_.is_over(7));
  EXPECT_TRUE(jobs_.is_over(8));
}

/// A request of it came here before the job's end, and its image could not be had.
TEST_F(JobCleanupTest, JC2_RequestsOfAnEndedJobThatIsNotKnownHereLeaveTheQueue) {
  leases_.queue().wanted(one_cpu(kDriver), loop_->now());
  ASSERT_EQ(leases_.queue().resources().available().cpu, 0);
  ends();
  EXPECT_NE(leases_.queue().resources().available().cpu, 0);
}

/// This daemon may have ended it without the head, and the other one's actor of it may live on.
TEST_F(ForwardedLeasesTest, FWL2_OfAJobThatIsOverHereAreGivenBackAfterAPause) {
  forward(kRequester);
  jobs_.over(7);
  EXPECT_FALSE(has_cpu());
  image_comes();
  EXPECT_FALSE(has_cpu());
  forward(kRequester);
  EXPECT_FALSE(has_cpu());
  EXPECT_TRUE(messenger_.notices.empty()) << "it would come again at once";
  loop_->after(10s, [this] { loop_->quit(1); });
  const int code = loop_->run([this] {
    if (messenger_.notices.size() == 2) loop_->quit(0);
    return false;
  }, 0us);
  ASSERT_EQ(code, 0);
  for (const FakeMessenger::Sent& notice : messenger_.notices) {
    EXPECT_EQ(notice.to, daemon_of(kRequester.node));
    ASSERT_EQ(notice.method, wire::Method::kLeaseCounted);
    const auto counted = wire::decode_message<wire::LeaseCounted>(notice.payload).value();
    EXPECT_EQ(counted.requester, kRequester);
    EXPECT_EQ(counted.node, 1u);
    EXPECT_EQ(counted.given_back, 1u);
    EXPECT_FALSE(counted.refused);
  }
}

/// A program that ends before run, say: its actors went round for ever, while its tasks were told.
TEST_F(WorkersTest, AnActorOfAProgramThatStartsNoWorkerIsToldSoAfterAsManyFailuresAsATask) {
  ActorStarts starts({*loop_, table_, messenger_, jobs_, leases_, workers_, logs_}, "node");
  jobs_.add(7);
  for (const Isolation isolation : {Isolation::kProcess, Isolation::kLight}) {
    launchers_.worker_ready(7);
    for (int failures = 0; failures <= kLauncherFailuresMax; ++failures) {
      wire::StartActor start;
      start.spec.id = {{1, 9}, 1};
      start.spec.job = 7;
      start.spec.isolation = isolation;
      messenger_.notices.clear();
      starts.start(start);
      starts.admitted({start.spec.id, 0}, {});
      ASSERT_EQ(messenger_.notices.size(), 1u);
      const auto failed = wire::decode_message<wire::StartActorFailed>(messenger_.notices[0].payload).value();
      EXPECT_EQ(failed.retry_elsewhere, failures < kLauncherFailuresMax);
      EXPECT_EQ(failed.error.code, ErrorCode::kRuntimeEnv);
      launchers_.worker_failed(7);
    }
  }
}

}  // namespace
}  // namespace troupe::node::test

// The parts of the daemon's store: from whom a buffer is drawn (TransferPlan) and how (Transfers), pages that are made
// beside the loop, and the store behind messages (StoreService) with what it offers to other daemons (Exports).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/node/base/exports.h"
#include "core/node/base/loop.h"
#include "core/node/store/page_thread.h"
#include "core/node/store/store_service.h"
#include "core/node/store/transfer_plan.h"
#include "core/node/store/transfers.h"
#include "tests/node/fake_messenger.h"

namespace troupe::node {
namespace {

using namespace std::chrono_literals;

// ------------------------------------------------------------------------------------------------------- TransferPlan

/// "ask 1, draw 1, release 1, pause 50, ok | failed"; a pause in milliseconds.
std::string text(const TransferPlan::Actions& actions) {
  std::string out;
  for (const auto& action : actions) {
    if (!out.empty()) out += ", ";
    if (auto* a = std::get_if<TransferPlan::Ask>(&action)) out += "ask " + std::to_string(a->node);
    if (auto* d = std::get_if<TransferPlan::Draw>(&action)) out += "draw " + std::to_string(d->node);
    if (auto* r = std::get_if<TransferPlan::Release>(&action)) out += "release " + std::to_string(r->node);
    if (auto* p = std::get_if<TransferPlan::Pause>(&action)) out += "pause " + std::to_string(p->span / 1ms);
    if (auto* f = std::get_if<TransferPlan::Finish>(&action)) out += f->status.ok() ? "ok" : "failed";
  }
  return out;
}

/// How it ended; null: it has not.
ErrorPtr error_of(const TransferPlan::Actions& actions) {
  for (const auto& action : actions)
    if (auto* f = std::get_if<TransferPlan::Finish>(&action); f && !f->status.ok()) return f->status.error_ptr();
  return nullptr;
}

const Status kSilent = GetTimeoutError("no answer"), kReset = NodeDiedError("hung up"),
             kStalled = DeadlineExceededError("not a byte came"), kDamaged = SerializationError("wrong checksum"),
             kFreed = ObjectLostError("no longer there"), kNoCopy = NotFoundError("no copy here"),
             kDead = NodeDiedError("declared dead");
using Nodes = std::vector<std::uint32_t>;

TEST(TransferPlan, TheOriginGivesItAndLetsGo) {
  TransferPlan plan(2);
  EXPECT_EQ(text(plan.begin()), "ask 2");
  EXPECT_EQ(text(plan.answered(2, {}, {2, 3})), "draw 2");
  EXPECT_EQ(text(plan.drawn({}, {2, 3})), "release 2, ok");
  EXPECT_EQ(text(plan.late()), "");
  EXPECT_EQ(text(plan.answered(2, {}, {})), "") << "TP-1";
}

// B.9: a wrong checksum, a reset or half a buffer says nothing about the bytes that are still there.
TEST(TransferPlan, TP3_ATransferThatFailedIsBegunAgainAfterAPauseThatGrows) {
  TransferPlan plan(2);
  (void)plan.begin();
  bool damaged = false;
  for (const char* pause : {"50", "100", "200", "400", "800", "1000", "1000"}) {
    EXPECT_EQ(text(plan.answered(2, {}, {2})), "draw 2");
    const Status& why = (damaged = !damaged) ? kDamaged : kReset;
    EXPECT_EQ(text(plan.drawn(why, {2})), std::string("release 2, pause ") + pause);
    EXPECT_EQ(text(plan.resumed({2})), "ask 2");
    EXPECT_EQ(text(plan.resumed({2})), "") << "it pauses no more";
  }
  EXPECT_EQ(text(plan.answered(2, {}, {2})), "draw 2");
  EXPECT_EQ(text(plan.drawn({}, {2})), "release 2, ok");
}

// A data port that is full for a moment, or a daemon out of descriptors, ended a transfer as NodeDiedError within
// milliseconds, and readers took the buffer of a live node for lost.
TEST(TransferPlan, TP4_APortThatIsNotReachedIsNoDeathOfItsNode) {
  TransferPlan plan(2);
  (void)plan.begin();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(text(plan.answered(2, {}, {})), "draw 2");
    EXPECT_EQ(error_of(plan.drawn(kReset, {})), nullptr);
    (void)plan.resumed({});
  }
  const ErrorPtr end = error_of(plan.late());
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code(), ErrorCode::kDeadlineExceeded);
  EXPECT_NE(end->message().find("10 attempts"), std::string::npos) << end->message();
  EXPECT_NE(end->message().find("hung up"), std::string::npos) << end->message();
}

TEST(TransferPlan, TP4_TheVerdictThatTheOriginIsDeadEndsItAsSuch) {
  TransferPlan plan(2);
  (void)plan.begin();
  (void)plan.answered(2, {}, {});
  (void)plan.drawn(kStalled, {});
  EXPECT_EQ(text(plan.resumed({})), "ask 2");
  const TransferPlan::Actions last = plan.answered(2, kDead, {});
  EXPECT_EQ(text(last), "release 2, failed");
  EXPECT_EQ(error_of(last)->code(), ErrorCode::kNodeDied);
}

TEST(TransferPlan, AnotherHolderIsFoundWhenTheOriginIsSilent) {
  TransferPlan plan(2);
  (void)plan.begin();
  EXPECT_EQ(text(plan.answered(2, kSilent, {2, 3, 4})), "release 2, ask 3, ask 4");
  EXPECT_EQ(text(plan.answered(3, kNoCopy, {2, 3, 4})), "release 3");
  EXPECT_EQ(text(plan.answered(4, {}, {2, 3, 4})), "draw 4");
  EXPECT_EQ(text(plan.drawn({}, {2, 3, 4})), "release 4, ok");
}

TEST(TransferPlan, AnotherHolderIsFoundWhenTheOriginStallsOrDiesHalfWay) {
  TransferPlan plan(2);
  (void)plan.begin();
  (void)plan.answered(2, {}, {});
  EXPECT_EQ(text(plan.drawn(kStalled, {3, 4})), "release 2, ask 3, ask 4");
  EXPECT_EQ(text(plan.answered(4, {}, {})), "draw 4");
  EXPECT_EQ(text(plan.answered(3, {}, {})), "") << "TP-2: kept in reserve";
  EXPECT_EQ(text(plan.drawn(kReset, {3, 4})), "release 4, draw 3");
  EXPECT_EQ(text(plan.drawn({}, {})), "release 3, ok");
}

TEST(TransferPlan, WithoutAnotherHolderASilentOriginIsAskedAgain) {
  TransferPlan plan(2);
  (void)plan.begin();
  EXPECT_EQ(text(plan.answered(2, kSilent, {3})), "release 2, ask 3");
  EXPECT_EQ(text(plan.answered(3, kNoCopy, {3})), "release 3, pause 50");
  EXPECT_EQ(text(plan.resumed({3})), "ask 2");
  EXPECT_EQ(text(plan.answered(2, kSilent, {3, 4})), "release 2, ask 3, ask 4") << "somebody may have a copy by now";
  EXPECT_EQ(text(plan.late()), "release 3, release 4, failed");
}

TEST(TransferPlan, WhatTheOriginFreedIsLostWhoeverHasACopy) {
  TransferPlan plan(2);
  (void)plan.begin();
  EXPECT_EQ(text(plan.answered(2, kFreed, {3})), "release 2, failed");
}

TEST(TransferPlan, ADeadOriginIsLostOnlyWhenNobodyElseHasACopy) {
  for (bool copy : {false, true}) {
    TransferPlan plan(2);
    (void)plan.begin();
    EXPECT_EQ(text(plan.answered(2, kDead, {3})), "release 2, ask 3");
    const Status answer = copy ? Status() : kNoCopy;
    EXPECT_EQ(text(plan.answered(3, answer, {3})), copy ? "draw 3" : "release 3, failed");
  }
}

// Found by the simulator (LWI-6): one damaged draw from the only copy was final once the origin was gone.
TEST(TransferPlan, ACopyThatCameDamagedIsDrawnAgainWhenTheOriginIsGone) {
  TransferPlan plan(2);
  const Nodes others{3};
  (void)plan.begin();
  EXPECT_EQ(text(plan.answered(2, kDead, others)), "release 2, ask 3");
  EXPECT_EQ(text(plan.answered(3, {}, others)), "draw 3");
  EXPECT_EQ(text(plan.drawn(kDamaged, others)), "pause 50") << "TP-5";
  EXPECT_EQ(text(plan.resumed(others)), "draw 3");
  EXPECT_EQ(text(plan.drawn({}, others)), "release 3, ok");
}

TEST(TransferPlan, WhoOfferedACopyAndIsSilentIsHopedForUntilItIsDead) {
  TransferPlan plan(2);
  (void)plan.begin();
  EXPECT_EQ(text(plan.answered(2, kSilent, {3})), "release 2, ask 3");
  EXPECT_EQ(text(plan.answered(3, {}, {3})), "draw 3");
  EXPECT_EQ(text(plan.drawn(kReset, {3})), "release 3, pause 50");
  EXPECT_EQ(text(plan.resumed({3})), "ask 2");
  EXPECT_EQ(text(plan.answered(2, kDead, {3})), "release 2, ask 3");
  EXPECT_EQ(text(plan.answered(3, kSilent, {3})), "release 3, pause 100");
  EXPECT_EQ(text(plan.resumed({})), "ask 3") << "also without a link: that it is dead is the answer then";
  const TransferPlan::Actions last = plan.answered(3, kDead, {});
  EXPECT_EQ(text(last), "release 3, failed");
  EXPECT_EQ(error_of(last)->code(), ErrorCode::kNodeDied);
}

// Without a hold, a dead node's buffer goes with its last pin: in the pause before the next attempt to draw it.
TEST(TransferPlan, TP5_TheCopyOfADeadNodesBufferIsHeldUntilTheEnd) {
  TransferPlan plan(2);
  (void)plan.begin();
  EXPECT_EQ(text(plan.answered(2, kDead, {3, 4})), "release 2, ask 3, ask 4");
  EXPECT_EQ(text(plan.answered(3, {}, {3, 4})), "draw 3");
  EXPECT_EQ(text(plan.answered(4, kNoCopy, {3, 4})), "release 4");
  EXPECT_EQ(text(plan.drawn(kReset, {3, 4})), "pause 50");
  EXPECT_EQ(text(plan.resumed({3, 4})), "ask 4, draw 3");
  EXPECT_EQ(text(plan.answered(4, {}, {3, 4})), "");
  EXPECT_EQ(text(plan.drawn(kReset, {3, 4})), "draw 4");
  EXPECT_EQ(text(plan.drawn(kDamaged, {3, 4})), "pause 100");
  EXPECT_EQ(text(plan.resumed({4})), "release 3, draw 4") << "3 has died";
  EXPECT_EQ(text(plan.drawn(kReset, {4})), "pause 200");
  const TransferPlan::Actions last = plan.resumed({});
  EXPECT_EQ(text(last), "release 4, failed") << "so has 4";
  EXPECT_EQ(error_of(last)->code(), ErrorCode::kNodeDied);
}

// Whatever happens in whatever order, it ends once, and nobody keeps the buffer for us afterwards.
TEST(TransferPlan, EveryAskIsReleasedAndItEndsOnce) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    std::uint64_t state = seed * 2654435761u + 1;
    auto random = [&](unsigned n) {
      return unsigned((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
    };
    TransferPlan plan(2);
    std::map<std::uint32_t, int> asked;
    std::vector<std::uint32_t> open;  // asks without an answer
    std::set<std::uint32_t> asked_in_round, drawn_in_round;
    int drawing = 0, finished = 0;
    bool pausing = false;
    auto take = [&](const TransferPlan::Actions& actions) {
      for (const auto& action : actions) {
        ASSERT_EQ(finished, 0);
        ASSERT_FALSE(pausing) << "TP-3";
        if (auto* a = std::get_if<TransferPlan::Ask>(&action)) {
          ++asked[a->node], open.push_back(a->node);
          ASSERT_TRUE(asked_in_round.insert(a->node).second) << "TP-3";
        }
        if (std::holds_alternative<TransferPlan::Pause>(action)) {
          pausing = true;
          ASSERT_TRUE(open.empty() && drawing == 0);
        }
        if (auto* d = std::get_if<TransferPlan::Draw>(&action)) {
          ASSERT_EQ(++drawing, 1) << "TP-2";
          ASSERT_EQ(asked[d->node], 1) << "nobody draws from who is not asked to keep it";
          ASSERT_TRUE(drawn_in_round.insert(d->node).second) << "TP-3";
        }
        if (auto* r = std::get_if<TransferPlan::Release>(&action)) {
          ASSERT_EQ(--asked[r->node], 0) << "TP-1";
        }
        if (auto* f = std::get_if<TransferPlan::Finish>(&action)) {
          ++finished;
          const bool dead = !f->status.ok() && f->status.error().code() == ErrorCode::kNodeDied;
          ASSERT_TRUE(!dead || f->status.error().message() == kDead.error().message()) << "TP-4";
        }
      }
    };
    const Nodes others{3, 4};
    const Status refusals[] = {kSilent, kDead, kNoCopy}, breaks[] = {kStalled, kReset, kDamaged};
    take(plan.begin());
    for (int step = 0; step < 400 && finished == 0; ++step) {
      if (!open.empty() && (drawing == 0 || random(2))) {
        const std::size_t at = random(unsigned(open.size()));
        const std::uint32_t node = open[at];
        open.erase(open.begin() + long(at));
        take(plan.answered(node, random(3) ? refusals[random(3)] : Status(), others));
      } else if (drawing) {
        drawing = 0;
        take(plan.drawn(random(6) ? breaks[random(3)] : Status(), others));
      } else if (pausing) {
        pausing = false;
        asked_in_round.clear(), drawn_in_round.clear();
        take(plan.resumed(others));
      } else {
        FAIL() << "seed " << seed << ": nothing is under way and it has not ended";
      }
      if (HasFatalFailure()) return;
    }
    pausing = false;
    if (finished == 0) take(plan.late());
    ASSERT_EQ(finished, 1);
    for (auto [node, count] : asked) ASSERT_EQ(count, 0) << "node " << node << ", seed " << seed;
  }
}

// ---------------------------------------------------------------------------------------------------------- Transfers

/// Data sockets that only write down what is to be fetched; the test ends it.
class FakeDataClient final : public net::DataClient {
 public:
  void fetch(net::Fetch fetch, net::DoneFunction done) override { fetches.emplace_back(std::move(fetch), done); }
  void stop() override {}
  Stats stats() const override { return {}; }

  std::vector<std::pair<net::Fetch, net::DoneFunction>> fetches;
};

class TransfersTest : public ::testing::Test {
 protected:
  TransfersTest() {
    transfers_.fetch({2, 7, 3}, to_, [this](const Status& status) { ends_.push_back(status); });
  }
  /// The origin keeps it for us, and what is drawn from it ends like this.
  void draw(const Status& status) {
    const std::size_t before = client_.fetches.size();
    const Messenger::Done kept = mail_.requests.back().done;
    kept(Messenger::Bytes());
    ASSERT_EQ(client_.fetches.size(), before + 1);
    const net::DoneFunction done = client_.fetches.back().second;
    done(status);
    loop_->pass();
  }
  void wait(Duration span) {
    now_ += span;
    loop_->pass();
  }

  Loop::TimePoint now_{1h};
  std::unique_ptr<Loop> loop_ = Loop::create([this] { return now_; }).value();
  test::FakeMessenger mail_;
  FakeDataClient client_;
  std::vector<std::byte> to_ = std::vector<std::byte>(100);
  std::vector<Status> ends_;
  Transfers transfers_{*loop_, mail_, client_,
                       Transfers::Surroundings{.others = [] { return Nodes{}; },
                                               .data_address = [](std::uint32_t) { return std::string("there"); }}};
};

TEST_F(TransfersTest, TP3_APortThatIsFullForSomeSecondsIsTriedUntilItTakesUs) {
  for (std::size_t round = 1; round <= 10; ++round) {
    ASSERT_EQ(mail_.requests.size(), round);
    draw(kReset);
    if (HasFatalFailure()) return;
    wait(TransferPlan::kPauseMin - 1ms);
    EXPECT_EQ(mail_.requests.size(), round) << "nobody is asked in a pause";
    EXPECT_TRUE(ends_.empty());
    wait(TransferPlan::kPauseMax);
  }
  draw({});
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_TRUE(ends_[0].ok());
  EXPECT_EQ(mail_.notices.size(), mail_.requests.size()) << "TP-1";
}

TEST_F(TransfersTest, TF1_APauseDoesNotOutlastTheDeadline) {
  draw(kReset);
  if (HasFatalFailure()) return;
  wait(kFetchWait);
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].error().code(), ErrorCode::kDeadlineExceeded) << "TP-4";
  EXPECT_NE(ends_[0].error().message().find("hung up"), std::string::npos) << ends_[0].error().message();
  wait(kFetchWait);
  EXPECT_EQ(ends_.size(), 1u);
}

// --------------------------------------------------------------------------------------------------------- PageThread

/// Pages that come when the test says so.
struct SlowPages {
  Status make(store::Range) {
    std::unique_lock lock(mutex);
    ++begun;
    changed.notify_all();
    changed.wait(lock, [this] { return allowed > 0; });
    --allowed;
    return {};
  }
  void allow(int n) {
    std::lock_guard lock(mutex);
    allowed += n;
    changed.notify_all();
  }
  void wait_until_begun() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return begun > 0; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0, allowed = 0;
};

std::unique_ptr<store::Arena> slow_arena(SlowPages& pages, std::uint64_t capacity) {
  return std::move(*store::Arena::create({.capacity = capacity,
                                          .available = [] { return ~std::uint64_t(0); },
                                          .make_pages = [&](const UniqueFd&, const store::Mapping&, store::Range range,
                                                            bool) { return pages.make(range); }}));
}

// B.1: at f0736ec the loop made the pages itself, so nothing that was posted ran before they were there.
TEST(PageThread, TheLoopAnswersWhileTheFirstTouchOfALargePutLasts) {
  SlowPages pages;
  auto arena = slow_arena(pages, 4ull << 30);
  auto loop = Loop::create().value();
  bool answered = false;
  std::vector<store::PageTicket> made;
  PageThread thread(*arena, {.made = [&](store::PageTicket ticket, const Status& status) {
                               loop->post([&, ticket, ok = status.ok()] {
                                 EXPECT_TRUE(ok);
                                 made.push_back(ticket);
                                 loop->quit(answered ? 7 : 8);
                               });
                             },
                             .ahead_done = [](const Status&) {}});
  loop->post([&] { thread.want(1, {0, 4ull << 30}); });
  loop->post([&] {
    pages.wait_until_begun();
    loop->post([&] {  // a ping
      answered = true;
      pages.allow(1000);
    });
  });
  EXPECT_EQ(loop->run([] { return false; }, 0us), 7);
  EXPECT_EQ(made, std::vector<store::PageTicket>{1});
  EXPECT_TRUE(arena->is_reserved({0, 4ull << 30}));
}

TEST(PageThread, ASmallRequestTakesItsTurnBesideALargeOne) {
  SlowPages pages;
  pages.allow(1000);
  auto arena = slow_arena(pages, 1ull << 30);
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<store::PageTicket> made;
  PageThread thread(*arena, {.made = [&](store::PageTicket ticket, const Status&) {
                               std::lock_guard lock(mutex);
                               made.push_back(ticket);
                               changed.notify_all();
                             },
                             .ahead_done = [](const Status&) {}});
  {
    std::lock_guard hold(pages.mutex);  // nothing is made before both are wanted
    thread.want(1, {0, 512 << 20});
    thread.want(2, {768 << 20, 1 << 20});
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return made.size() == 2; });
  EXPECT_EQ(made, (std::vector<store::PageTicket>{2, 1}));
}

TEST(PageThread, WhatIsDroppedBeforeAnybodyBeganWithItHoldsNothingBack) {
  auto arena = std::move(*store::Arena::create({.capacity = 1ull << 30}));
  std::atomic<int> touched{0};
  PageThread thread(*arena, {.made = [](store::PageTicket, const Status&) {},
                             .ahead_done = [&](const Status&) { ++touched; }});
  for (int round = 1; round <= 200; ++round) {
    thread.want(1, {0, 1 << 20});
    thread.drop(1);
    thread.ahead({512 << 20, 1 << 20});
    const auto patience = std::chrono::steady_clock::now() + 60s;
    while (touched != round && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
    ASSERT_EQ(touched, round);
  }
}

TEST(PageThread, ADroppedTicketIsNotWaitedForAndTheEndWaitsForNothing) {
  SlowPages pages;
  auto arena = slow_arena(pages, 1ull << 30);
  std::atomic<int> made{0};
  {
    PageThread thread(*arena,
                      {.made = [&](store::PageTicket, const Status&) { ++made; }, .ahead_done = [](const Status&) {}});
    thread.want(1, {0, 512 << 20});
    pages.wait_until_begun();
    thread.want(2, {512 << 20, 64 << 20});
    thread.drop(2);
    thread.drop(1);
    pages.allow(1);  // the step that had begun
  }
  EXPECT_EQ(made, 0);
  EXPECT_EQ(pages.begun, 1);
}

// ------------------------------------------------------------------------------------------------------- StoreService

class StoreServiceTest : public ::testing::Test {
 protected:
  StoreServiceTest() {
    for (ProcessId client : {kA, kB}) EXPECT_TRUE(service_->server().add_client(client).ok());
    service_->set_fetch([this](store::BufferId, std::span<std::byte>, std::function<void(Status)> done) {
      arrive_.push_back(std::move(done));
    });
  }
  static net::FrameHeader request(ProcessId client, std::uint64_t token) {
    net::FrameHeader header;
    header.source = client;
    header.token = token;
    return header;
  }
  /// The answer to the request with this token, once it comes; pages are made on another thread.
  const test::FakeMessenger::Answer* answer(std::uint64_t token) {
    auto find = [&]() -> const test::FakeMessenger::Answer* {
      for (const auto& one : mail_.answers)
        if (one.request.token == token) return &one;
      return nullptr;
    };
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!find() && std::chrono::steady_clock::now() < end) loop_->pass();
    return find();
  }
  wire::StoreAllocateReply grant(ProcessId client, std::uint64_t token, std::uint64_t size) {
    service_->allocate(request(client, token), {size});
    const auto* got = answer(token);
    EXPECT_TRUE(got && !got->failed);
    return wire::decode_message<wire::StoreAllocateReply>(got->payload).value();
  }
  /// What the store fetches from other nodes comes when the test says so. False: it fetches nothing.
  bool wait_for_a_fetch() {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (arrive_.empty() && std::chrono::steady_clock::now() < end) loop_->pass();
    return !arrive_.empty();
  }
  void arrive() {
    const auto done = arrive_.back();
    arrive_.pop_back();
    done(Status());
  }

  static constexpr ProcessId kA{1, 1}, kB{1, 2};
  static constexpr std::uint64_t kCapacity = 16 << 20;
  static constexpr wire::BufferDesc kRemote{2, 7, 3, 1 << 20};
  Loop::TimePoint now_ = std::chrono::steady_clock::now();
  std::unique_ptr<Loop> loop_ = Loop::create([this] { return now_; }).value();
  test::FakeMessenger mail_;
  std::unique_ptr<StoreService> service_ =
      StoreService::create(*loop_, mail_, {.node = 1, .capacity = kCapacity}).value();
  std::vector<std::function<void(Status)>> arrive_;
};

// REVIEW B.6: nothing could be withdrawn at f0736ec, so a grant went to whoever had given up.
TEST_F(StoreServiceTest, SV1_WhatIsWithdrawnIsAnsweredAndGrantedToNobody) {
  const wire::StoreAllocateReply all = grant(kA, 1, kCapacity);
  service_->allocate(request(kB, 2), {1 << 20});
  service_->lease(request(kB, 3), {64 << 10, 8, false});
  EXPECT_TRUE(mail_.answers.size() == 1);
  service_->withdraw(kA, {2});
  EXPECT_EQ(mail_.answers.size(), 1u) << "not its request";
  for (std::uint64_t token : {2, 3}) {
    service_->withdraw(kB, {token});
    const auto* said = answer(token);
    ASSERT_TRUE(said);
    EXPECT_TRUE(said->failed);
  }
  service_->withdraw(kB, {2});
  service_->withdraw(kA, {1});
  EXPECT_EQ(mail_.answers.size(), 3u) << "answered once";
  service_->free(kA, {{{all.slot, all.generation}}, {}, {}, {}});
  EXPECT_EQ(service_->server().usage().used, 0u);
  EXPECT_EQ(service_->server().usage().leased, 0u);
}

// REVIEW A.15: what came behind the news of a client's end was kept for ever.
TEST_F(StoreServiceTest, SV1_OfAClientThatHasClosedNothingIsKept) {
  (void)grant(kA, 1, kCapacity);
  service_->allocate(request(kB, 2), {1 << 20});
  EXPECT_EQ(service_->open_requests(), 1u);
  service_->client_closing(kB);
  EXPECT_EQ(service_->open_requests(), 0u);
  service_->allocate(request(kB, 3), {1 << 20});
  service_->lease(request(kB, 4), {64 << 10, 8, false});
  EXPECT_EQ(service_->open_requests(), 0u);
  service_->client_died(kB);
  service_->allocate(request(kB, 5), {1 << 20});
  EXPECT_EQ(service_->open_requests(), 0u);
  EXPECT_EQ(mail_.answers.size(), 1u);
}

// REVIEW B.10: `ahead` was not in the message at f0736ec, so hints stood in the queue before real requests.
TEST_F(StoreServiceTest, AHintIsRefusedByAFullStoreAndQueuedNowhere) {
  (void)grant(kA, 1, kCapacity);
  service_->lease(request(kB, 2), {64 << 10, 8, true});
  const auto* said = answer(2);
  ASSERT_TRUE(said);
  EXPECT_TRUE(said->failed);
  EXPECT_EQ(service_->server().usage().waiting, 0u);
}

// REVIEW A.5: who gets memory while others wait for it is told to keep nothing.
TEST_F(StoreServiceTest, ALeaseOfATightStoreSaysSo) {
  (void)grant(kA, 1, kCapacity / 2);
  service_->lease(request(kB, 2), {64 << 10, 8, false});
  service_->allocate(request(kA, 3), {kCapacity});
  service_->lease(request(kB, 4), {64 << 10, 8, false});
  for (std::uint64_t token : {2, 4}) {
    const auto* said = answer(token);
    ASSERT_TRUE(said && !said->failed);
    EXPECT_EQ(wire::decode_message<wire::StoreLeaseReply>(said->payload)->tight, token == 4);
  }
  std::vector<ProcessId> asked;
  for (const auto& notice : mail_.notices)
    if (notice.method == wire::Method::kStoreTrim) asked.push_back(notice.to);
  std::sort(asked.begin(), asked.end());
  EXPECT_EQ(asked, (std::vector<ProcessId>{kA, kB}));
}

// The keeper's two seconds ended the copy for all who waited for it: an actor's constructor got ObjectStoreFullError.
TEST_F(StoreServiceTest, SV6_AReaderThatJoinsTheKeepersCopyGetsItWhenThereIsRoom) {
  const wire::StoreAllocateReply all = grant(kA, 1, kCapacity);
  std::vector<bool> kept;
  service_->bring(kRemote, [&](const Result<store::BufferId>& local) { kept.push_back(local.ok()); });
  now_ += kKeepWait / 2;
  service_->fetch(request(kB, 2), {kRemote});
  now_ += kKeepWait;
  loop_->pass();
  EXPECT_EQ(kept, std::vector<bool>{false}) << "the keeper does not wait longer for it";
  EXPECT_EQ(mail_.answers.size(), 1u) << "the reader does";
  service_->free(kA, {{{all.slot, all.generation}}, {}, {}, {}});
  ASSERT_TRUE(wait_for_a_fetch());
  arrive();
  const auto* said = answer(2);
  ASSERT_TRUE(said);
  EXPECT_FALSE(said->failed);
  EXPECT_EQ(kept.size(), 1u);
}

TEST_F(StoreServiceTest, SV6_AReaderThatJoinsTheKeepersCopyWaitsItsOwnTimeAndNoLonger) {
  (void)grant(kA, 1, kCapacity);
  service_->bring(kRemote, [](const Result<store::BufferId>&) {});
  now_ += kKeepWait / 2;
  service_->fetch(request(kB, 2), {kRemote});
  const Loop::TimePoint end = now_ + kStoreWait;
  now_ += kKeepWait;
  loop_->pass();
  now_ = end - 1ms;
  loop_->pass();
  EXPECT_EQ(mail_.answers.size(), 1u);
  now_ = end;
  loop_->pass();
  ASSERT_EQ(mail_.answers.size(), 2u);
  ASSERT_TRUE(mail_.answers[1].failed);
  EXPECT_EQ(wire::decode_message<ErrorRecord>(mail_.answers[1].payload)->code, ErrorCode::kObjectStoreFull);
  EXPECT_EQ(service_->server().usage().waiting, 0u);
}

// Release and Ask of a daemon whose draw broke come in one batch. What the withdrawal posted took the new entry for the
// old one, and the copy stayed held for ever.
TEST_F(StoreServiceTest, EX2_ACopyOfferedAgainInTheTurnInWhichItWasWithdrawnIsLetGoInTheEnd) {
  Exports exports(*loop_, [this](store::BufferId local) { service_->unexport(local); });
  service_->set_exports(&exports);
  bool here = false;
  service_->bring(kRemote, [&](const Result<store::BufferId>& local) { here = local.ok(); });
  ASSERT_TRUE(wait_for_a_fetch());
  arrive();
  ASSERT_TRUE(here);
  const wire::StoreHoldRequest wanted{daemon_of(3), {kRemote}};
  const net::BufferKey key{kRemote.node, kRemote.slot, kRemote.generation};
  service_->hold(request(daemon_of(3), 1), wanted);
  ASSERT_TRUE(mail_.answers.size() == 1 && !mail_.answers[0].failed) << "SV-5";
  service_->unhold(wanted);
  service_->hold(request(daemon_of(3), 2), wanted);
  ASSERT_TRUE(mail_.answers.size() == 2 && !mail_.answers[1].failed);
  loop_->pass();
  EXPECT_TRUE(exports.open(key).ok());
  service_->unhold(wanted);
  loop_->pass();
  EXPECT_FALSE(exports.open(key).ok());
  EXPECT_EQ(service_->server().usage().objects, 1u) << "an unused copy stays until room is needed";
  service_->copies_void({daemon_of(2), {kRemote}});
  EXPECT_EQ(service_->server().usage().objects, 0u) << "somebody still holds it";
}

// EX-1: between two turns the copy is held once for as long as it is exposed.
TEST_F(StoreServiceTest, EX1_ACopyThatIsOfferedAgainStaysHeldMeanwhile) {
  Exports exports(*loop_, [this](store::BufferId local) { service_->unexport(local); });
  service_->set_exports(&exports);
  service_->bring(kRemote, [](const Result<store::BufferId>&) {});
  ASSERT_TRUE(wait_for_a_fetch());
  arrive();
  const wire::StoreHoldRequest wanted{daemon_of(3), {kRemote}};
  service_->hold(request(daemon_of(3), 1), wanted);
  service_->unhold(wanted);
  service_->hold(request(daemon_of(3), 2), wanted);
  loop_->pass();
  service_->copies_void({daemon_of(2), {kRemote}});
  EXPECT_EQ(service_->server().usage().objects, 1u) << "it goes when nobody draws it any more";
  service_->unhold(wanted);
  loop_->pass();
  EXPECT_EQ(service_->server().usage().objects, 0u);
}

}  // namespace
}  // namespace troupe::node

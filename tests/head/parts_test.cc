// The head's parts by themselves: supervision (SUP-1 to SUP-3), holds, the placement queue, frames (FC-1).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/backoff.h"
#include "core/head/service/frame_codec.h"
#include "core/head/state/actors/handles.h"
#include "core/head/state/actors/placement_queue.h"
#include "core/head/state/actors/supervision.h"
#include "core/wire/codec.h"

namespace troupe::head {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, GrowsToItsMaximumAndStaysInsideItsJitter) {
  Random random(1);
  const Backoff backoff{.initial = 50ms, .factor = 2, .max = 1s, .jitter = 0.2};
  for (std::uint32_t attempt = 0; attempt < 2000; ++attempt) {
    double base = std::min(50e6 * std::pow(2.0, attempt), 1e9);
    double delay = static_cast<double>(backoff_delay(backoff, attempt, random.unit()).count());
    EXPECT_GE(delay, base * 0.8 - 1);
    EXPECT_LE(delay, base * 1.2 + 1);
  }
  EXPECT_EQ(backoff_delay({.initial = 0ms, .factor = 2, .max = 1s, .jitter = 0}, 5, random.unit()), 0ms);
}

TEST(RestartHistory, ZeroNeverRestarts) {
  Random random(1);
  EXPECT_FALSE(RestartHistory().on_crash(1s, {.max_restarts = 0}, random)) << "SUP-2";
}

TEST(RestartHistory, TheWindowSlides) {
  Random random(1);
  RestartHistory history;
  RestartRule rule{.max_restarts = 2, .window = 10s};
  EXPECT_TRUE(history.on_crash(0s, rule, random));
  EXPECT_TRUE(history.on_crash(6s, rule, random));
  EXPECT_FALSE(history.on_crash(9999ms, rule, random)) << "SUP-1";
  EXPECT_TRUE(history.on_crash(10s, rule, random));
  EXPECT_FALSE(history.on_crash(15s, rule, random));
}

TEST(RestartHistory, TheDelayStartsAnewWhenTheWindowIsClear) {
  Random random(1);
  RestartHistory history;
  RestartRule rule{.max_restarts = kNoLimit, .window = 10s, .backoff = {.jitter = 0}};
  EXPECT_EQ(*history.on_crash(0s, rule, random), 50ms);
  EXPECT_EQ(*history.on_crash(1s, rule, random), 100ms);
  EXPECT_EQ(*history.on_crash(2s, rule, random), 200ms);
  EXPECT_EQ(*history.on_crash(30s, rule, random), 50ms) << "SUP-3";
}

TEST(Holds, CountsProcessesNotHandles) {
  Holds holds;
  const ProcessId a{1, 1}, b{1, 2};
  const ActorId actor{a, 1};
  EXPECT_TRUE(holds.created(actor));
  EXPECT_TRUE(holds.hold(b, actor));
  EXPECT_FALSE(holds.hold(b, actor));
  EXPECT_EQ(holds.holders(actor), 2u);
  EXPECT_EQ(holds.drop_all(a), std::vector<ActorId>{actor});
  EXPECT_TRUE(holds.drop(b, actor));
  EXPECT_FALSE(holds.drop(b, actor));
  EXPECT_EQ(holds.holders(actor), 0u);
}

TEST(Holds, AForgottenActorsHoldersMayDropLater) {
  Holds holds;
  const ActorId actor{{1, 1}, 1};
  holds.created(actor);
  holds.forget(actor);
  EXPECT_EQ(holds.holders(actor), 0u);
  EXPECT_TRUE(holds.processes().empty()) << "nothing is left behind";
  EXPECT_FALSE(holds.drop({1, 1}, actor));
}

TEST(Subscriptions, LeaveNothingBehind) {
  Subscriptions subscriptions;
  const ActorId a{{1, 1}, 1}, b{{1, 1}, 2};
  subscriptions.add({1, 5}, a);
  subscriptions.add({1, 5}, a);
  subscriptions.add({1, 5}, b);
  subscriptions.add({1, 6}, a);
  EXPECT_EQ(subscriptions.of(a).size(), 2u);
  subscriptions.remove_process({1, 5});
  EXPECT_EQ(subscriptions.of(a).size(), 1u);
  EXPECT_TRUE(subscriptions.of(b).empty());
  subscriptions.remove_actor(a);
  EXPECT_TRUE(subscriptions.processes().empty());
}

TEST(PlacementQueue, OldestFirstAndOneQuestionForAClassThatDoesNotFit) {
  PlacementQueue queue;
  const ProcessId maker{1, 1};
  queue.push("large", {maker, 1});
  queue.push("large", {maker, 2});
  queue.push("small", {maker, 3});
  queue.push("large", {maker, 4});
  queue.push("small", {maker, 5});
  std::vector<std::uint64_t> asked;
  bool room = false;
  auto attempt = [&](ActorId actor) {
    asked.push_back(actor.seq);
    bool large = actor.seq != 3 && actor.seq != 5;
    return large && !room ? PlacementQueue::Attempt::kNoRoom : PlacementQueue::Attempt::kPlaced;
  };
  queue.pass(attempt);
  EXPECT_EQ(asked, (std::vector<std::uint64_t>{1, 3, 5})) << "PQ-2";
  asked.clear();
  room = true;
  queue.pass(attempt);
  EXPECT_EQ(asked, (std::vector<std::uint64_t>{1, 2, 4}));
  EXPECT_TRUE(queue.empty());
}

TEST(FrameCodec, WhatIsSentIsWhatIsRead) {
  wire::ActorSpec spec;
  spec.id = {{3, 4}, 5};
  spec.name = "n";
  spec.scheduling = NodeAffinity{"x", true};
  Encoded encoded = encode_send({.to = {3, 4},
                                 .kind = wire::FrameKind::kRequest,
                                 .method = wire::Method::kCreateActor,
                                 .token = 9,
                                 .body = spec});
  EXPECT_EQ(encoded.header.destination, (ProcessId{3, 4}));
  auto frame = decode_frame(1, encoded.header, encoded.payload);
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->token, 9u);
  ASSERT_TRUE(std::holds_alternative<wire::ActorSpec>(frame->body));
  EXPECT_EQ(std::get<NodeAffinity>(std::get<wire::ActorSpec>(frame->body).scheduling).node_id, "x");
}

TEST(FrameCodec, FailuresAndEmptyAnswersAreTold) {
  Encoded failed = encode_send({.to = {1, 0},
                                .kind = wire::FrameKind::kResponse,
                                .token = 1,
                                .failed = true,
                                .body = error_record(ErrorCode::kNotFound, "no")});
  auto frame = decode_frame(1, failed.header, failed.payload);
  ASSERT_TRUE(frame && frame->failed);
  EXPECT_EQ(std::get<ErrorRecord>(frame->body).message, "no");
  Encoded pong = encode_send({.to = {1, 0}, .kind = wire::FrameKind::kResponse, .token = 1, .body = wire::Empty{}});
  EXPECT_TRUE(std::holds_alternative<wire::Empty>(decode_frame(1, pong.header, pong.payload)->body));
}

TEST(FrameCodec, GarbageIsMonostate) {
  net::FrameHeader header;
  header.kind = static_cast<std::uint8_t>(wire::FrameKind::kRequest);
  header.arg0 = static_cast<std::uint64_t>(wire::Method::kCreateActor);
  const std::vector<std::byte> garbage(40, std::byte{0xFF});
  auto frame = decode_frame(1, header, garbage);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(frame->body)) << "FC-1";
  header.kind = static_cast<std::uint8_t>(wire::FrameKind::kCall);
  EXPECT_FALSE(decode_frame(1, header, {}));
}

}  // namespace
}  // namespace troupe::head

// Values that are asked for by a reader that takes nothing: the owner keeps the questions, and makes no frames.
#include "core/owner/late_answers.h"

#include "bench.h"

namespace troupe::worker {
namespace {

using namespace std::chrono_literals;

constexpr ProcessId kReader{1, 7}, kOther{1, 8};
constexpr std::size_t kBody = 4096;

class LateAnswersTest : public ::testing::Test {
 protected:
  LateAnswersTest() { bench_.attached_peers.insert({kReader, kOther}); }

  /// An object of this process with a value, or pending, and a borrower's count for each reader.
  detail::ObjectPtr object(bool ready = true) {
    detail::ObjectPtr made;
    {
      CoreLock lock(bench_.core);
      made = detail::ObjectPtr::adopt(bench_.core.objects().make_owned());
      for (ProcessId reader : {kReader, kOther}) bench_.core.objects().grant(entry_of(made), reader);
    }
    if (ready) complete(made);
    return made;
  }
  void complete(const detail::ObjectPtr& object) {
    CoreLock lock(bench_.core);
    detail::Value value;
    value.body = detail::Bytes(kBody);
    bench_.core.objects().complete(entry_of(object), std::move(value));
  }
  void ask(ProcessId reader, const detail::ObjectPtr& object) {
    const ObjectId id = entry_of(object).id;
    std::vector<std::byte> payload(sizeof id);
    std::memcpy(payload.data(), &id, sizeof id);
    net::FrameHeader header;
    header.kind = std::uint8_t(wire::FrameKind::kValueRequest);
    bench_.deliver(reader, header, payload);
  }
  /// The objects whose values have left for this reader since, in order.
  std::vector<std::uint64_t> answered(ProcessId reader) {
    std::vector<std::uint64_t> seqs;
    for (const SentFrame& frame : bench_.take_kind(wire::FrameKind::kValue)) {
      if (frame.ring != reader) continue;
      ReplyHead head;
      std::memcpy(&head, frame.payload.data(), sizeof head);
      seqs.push_back(head.call_id);
    }
    return seqs;
  }
  static std::uint64_t seq(const detail::ObjectPtr& object) { return entry_of(object).id.seq; }
  void clog() { bench_.backlogs[kReader] = ReplyRoom::kHigh + 1; }
  void unclog() {
    bench_.backlogs.clear();
    bench_.advance(1ms);
  }

  Bench bench_;
};

TEST_F(LateAnswersTest, LAN1_NoValueLeavesForAReaderThatTakesNone) {
  const auto first = object(), second = object(), third = object(), pending = object(false);
  clog();
  ask(kReader, first);
  EXPECT_EQ(answered(kReader), std::vector{seq(first)}) << "it showed that the reader takes nothing";
  ask(kReader, pending);
  ask(kReader, third);
  ask(kReader, second);
  complete(pending);
  EXPECT_TRUE(answered(kReader).empty());
  bench_.backlogs[kReader] = ReplyRoom::kLow;
  bench_.advance(1ms);
  EXPECT_TRUE(answered(kReader).empty()) << "not yet: whoever is answered at the brim is late again at once";
  unclog();
  EXPECT_EQ(answered(kReader), (std::vector{seq(third), seq(second), seq(pending)})) << "in the order of the questions";
  ask(kReader, first);
  EXPECT_EQ(answered(kReader), std::vector{seq(first)}) << "at once again";
}

TEST_F(LateAnswersTest, LAN1_WhoTakesALittleGetsALittle) {
  const auto first = object(), second = object(), third = object();
  clog();
  for (const auto& one : {first, second, third}) ask(kReader, one);
  answered(kReader);
  bench_.backlogs[kReader] = 0;
  bench_.on_send = [&](ProcessId ring) {
    if (ring == kReader) clog();
  };
  bench_.advance(1ms);
  EXPECT_EQ(answered(kReader), std::vector{seq(second)});
  bench_.on_send = nullptr;
  unclog();
  EXPECT_EQ(answered(kReader), std::vector{seq(third)});
}

TEST_F(LateAnswersTest, LAN2_AQuestionKeepsItsObjectAndIsRememberedOnce) {
  const auto first = object();
  auto second = object();
  const std::uint64_t asked = seq(second);
  clog();
  for (const auto& one : {first, second, second, second}) ask(kReader, one);
  answered(kReader);
  {
    CoreLock lock(bench_.core);
    for (ProcessId reader : {kReader, kOther}) bench_.core.objects().released(reader, entry_of(second).id, 1);
  }
  second = {};
  unclog();
  EXPECT_EQ(answered(kReader), std::vector{asked});
  CoreLock lock(bench_.core);
  EXPECT_FALSE(bench_.core.objects().knows({Bench::kSelf, asked})) << "and then nobody keeps it";
}

// The last handle goes while another thread has the lock, and what it dropped waits for that; the question comes first.
TEST_F(LateAnswersTest, LAN2_WhatIsOnItsWayOutIsAnsweredAtOnceAndKeptByNoQuestion) {
  const auto first = object();
  auto second = object();
  const ObjectId id = entry_of(second).id;
  clog();
  ask(kReader, first);
  answered(kReader);
  {
    CoreLock lock(bench_.core);
    for (ProcessId reader : {kReader, kOther}) bench_.core.objects().released(reader, id, 1);
    second = {};
    EXPECT_TRUE(bench_.core.objects().value_wanted(kReader, id, id.seq));
  }
  EXPECT_EQ(answered(kReader), std::vector{id.seq});
  CoreLock lock(bench_.core);
  EXPECT_FALSE(bench_.core.objects().knows(id));
}

TEST_F(LateAnswersTest, LAN2_QuestionsGoWithTheirReader) {
  const auto first = object();
  auto second = object();
  const std::uint64_t asked = seq(second);
  clog();
  for (const auto& one : {first, second}) ask(kReader, one);
  {
    CoreLock lock(bench_.core);
    bench_.core.objects().released(kOther, entry_of(second).id, 1);
  }
  second = {};
  wire::ProcessDied died;
  died.process = kReader;
  bench_.notice(wire::Method::kProcessDied, died);
  bench_.backlogs.clear();
  bench_.advance(1ms);
  EXPECT_EQ(answered(kReader), std::vector{seq(first)}) << "the one that left before";
  bench_.advance(kBorrowGrace);
  CoreLock lock(bench_.core);
  EXPECT_FALSE(bench_.core.objects().knows({Bench::kSelf, asked}));
  EXPECT_FALSE(bench_.core.owner().answers_wait());
}

TEST_F(LateAnswersTest, LAN3_OthersAreAnsweredMeanwhile) {
  const auto first = object(), second = object();
  clog();
  for (ProcessId reader : {kReader, kOther})
    for (const auto& one : {first, second}) ask(reader, one);
  EXPECT_EQ(answered(kOther), (std::vector{seq(first), seq(second)}));
}

/// An error is small, and its entry may be on its way out when it is told.
TEST_F(LateAnswersTest, AnErrorDoesNotWait) {
  const auto first = object(), failed = object(false);
  clog();
  for (const auto& one : {first, failed}) ask(kReader, one);
  answered(kReader);
  {
    CoreLock lock(bench_.core);
    bench_.core.objects().fail(entry_of(failed), object_lost("gone"));
  }
  EXPECT_EQ(answered(kReader), std::vector{seq(failed)});
}

}  // namespace
}  // namespace troupe::worker

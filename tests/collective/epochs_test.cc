// What a process makes of the words about its groups in any order (CEP-7): a record that comes behind the word that its
// epoch has failed or ended makes no group in which ranks wait for each other.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "collective/group/epochs.h"
#include "tests/collective/ranks.h"
#include "tests/process/bench.h"

namespace troupe::collective {
namespace {

using wire::GroupWordKind;
using worker::Bench;
using Kind = Epochs::Admission::Kind;

const ProcessId kFounder{1, 9}, kOther{1, 7};
const std::string kKey = "__collective/1/dp";

GroupRecord record_of(std::uint64_t id, std::uint64_t epoch) {
  return {.epoch = epoch,
          .timeout_ns = 1'000'000'000,
          .id = id,
          .secret = std::string(64, 'a'),
          .founder = kFounder,
          .memories = {},
          .members = {{.actor = "one", .node = "node", .data_address = {}, .process = Bench::kSelf},
                      {.actor = "two", .node = "node", .data_address = {}, .process = kOther}}};
}

/// The process of rank 0.
struct Process {
  Bench bench{wire::Role::kWorker};
  Epochs epochs;

  void hears(const wire::GroupWord& word) { EXPECT_TRUE(epochs.word(bench.core, kFounder, word).ok()); }
  void hears_formed(const GroupRecord& record, const std::string& key = kKey) {
    hears({.kind = GroupWordKind::kFormed,
           .key = key,
           .group = record.id,
           .epoch = record.epoch,
           .record = encode(record)});
  }
  void hears_ended(const GroupRecord& record) {
    hears({.kind = GroupWordKind::kEnded, .key = kKey, .group = record.id, .epoch = record.epoch});
  }
  void hears_failed(const GroupRecord& record, const std::string& text, const std::string& key = kKey) {
    hears({.kind = GroupWordKind::kFailed,
           .key = key,
           .group = record.id,
           .epoch = record.epoch,
           .reason = std::uint8_t(Reason::kDied),
           .text = text,
           .missing = {1}});
  }
  Epochs::Admission asks(const std::string& key = kKey) { return epochs.admit(bench.core, key, {.actor = "one"}); }
  /// Rank 0 takes its place; what it is told then.
  std::optional<Failure> enters(const std::string& key = kKey) {
    const Epochs::Admission admission = asks(key);
    EXPECT_EQ(admission.kind, Kind::kEnter);
    if (admission.kind != Kind::kEnter) return std::nullopt;
    const auto memory = testing::make_segment({.ranks = 2});
    epochs.opened(admission.epoch, memory);
    const auto member = std::make_shared<detail::Member>(std::make_unique<ShmCommunicator>(memory, 0),
                                                         detail::MemberOptions{.group = "dp"});
    epochs.enter(admission.epoch, 0, {0, member, [](std::uint64_t) {}});
    return member->communicator().failure();
  }
};

TEST(Epochs, CEP7_WhatFailedBeforeItWasKnownHasFailedForWhoeverEnters) {
  Process process;
  process.hears_failed(record_of(5, 1), "the first word");
  process.hears_failed(record_of(5, 1), "the second word");
  process.hears_formed(record_of(5, 1));
  const auto failure = process.enters();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->reason, Reason::kDied);
  EXPECT_EQ(failure->text, "the first word") << "CEP-3";
  EXPECT_EQ(failure->missing_ranks, std::vector{1});
}

TEST(Epochs, CEP7_WhatEndedBeforeItWasKnownIsNotEntered) {
  for (const bool failed_before : {false, true}) {
    Process process;
    if (failed_before) process.hears_failed(record_of(5, 1), "a word");
    process.hears_ended(record_of(5, 1));
    process.hears_formed(record_of(5, 1));
    EXPECT_EQ(process.asks().kind, Kind::kWait) << "for the next epoch";
    process.hears_formed(record_of(6, 2));
    EXPECT_FALSE(process.enters());
  }
}

// Of several founders at once only one succeeds: words about the others' epochs say nothing of its own.
TEST(Epochs, CEP7_AWordCountsForItsOwnEpochAlone) {
  Process process;
  process.hears_ended(record_of(5, 1));
  process.hears_failed(record_of(7, 2), "of a later one");
  process.hears_formed(record_of(6, 1));
  EXPECT_FALSE(process.enters());
  process.hears_failed(record_of(5, 1), "of the past");
  process.hears_formed(record_of(7, 2));
  EXPECT_TRUE(process.enters());
}

TEST(Epochs, CEP7_OnlySoManyWordsAreKept) {
  constexpr int kMany = 1000;
  Process process;
  const auto key_of = [](int n) { return kKey + std::to_string(n); };
  for (int n = 0; n < kMany; ++n) process.hears_failed(record_of(5, 1), "a word", key_of(n));
  process.hears_formed(record_of(5, 1), key_of(0));
  EXPECT_FALSE(process.enters(key_of(0))) << "the oldest is forgotten";
  process.hears_formed(record_of(5, 1), key_of(kMany - 1));
  EXPECT_TRUE(process.enters(key_of(kMany - 1)));
}

// Between founding and telling the founder may stand still: what it says of a failure then is the first that a member
// hears of the epoch.
TEST(Epochs, CEP7_AFounderThatFailsTheEpochBeforeItHasToldOfItIsUnderstood) {
  Bench bench(wire::Role::kDriver);
  bench.attached_peers.insert(kOther);
  Epochs founders;
  GroupRecord record = record_of(5, 1);
  record.founder = Bench::kSelf;
  ASSERT_TRUE(founders.found(bench.core, kKey, record));
  founders.process_died(bench.core, Bench::kSelf, "it was killed");
  Process process;
  process.hears(bench.take(wire::Method::kGroupWord).decode<wire::GroupWord>());
  process.hears_formed(record);
  const auto failure = process.enters();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->missing_ranks, std::vector{0});
}

// A member that has found the record in the table may see a failure before the founder's thread comes to found it.
TEST(Epochs, CEP7_AFounderTellsAllOfAFailureThatItHeardBeforeItFounded) {
  Process process;
  process.bench.attached_peers.insert(kOther);
  process.hears_failed(record_of(5, 1), "a word");
  const auto epoch = process.epochs.found(process.bench.core, kKey, record_of(5, 1));
  ASSERT_TRUE(epoch);
  EXPECT_TRUE(epoch->failure);
  const auto word = process.bench.take(wire::Method::kGroupWord).decode<wire::GroupWord>();
  EXPECT_EQ(word.kind, GroupWordKind::kFailed);
  EXPECT_EQ(word.text, "a word");
}

}  // namespace
}  // namespace troupe::collective

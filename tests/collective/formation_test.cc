// How groups of actors are planned (FM-1, FM-2, FM-4), and the record that carries the plan.
#include <gtest/gtest.h>

#include "collective/base/backend_name.h"
#include "collective/group/formation.h"

namespace troupe::collective {
namespace {

/// A rank on each of these nodes; "-" at the end of a name: a node without a data port.
std::vector<GroupMember> on(const std::vector<std::string>& nodes) {
  std::vector<GroupMember> members;
  for (std::size_t r = 0; r < nodes.size(); ++r)
    members.push_back({.actor = "actor" + std::to_string(r),
                       .node = nodes[r],
                       .data_address = nodes[r].ends_with('-') ? "" : "10.0.0.1:" + std::to_string(4000 + r),
                       .process = {std::uint32_t(r + 1), 7},
                       .restarts = int(r)});
  return members;
}

Backend automatic(const std::vector<std::string>& nodes) {
  return plan_formation(on(nodes), Backend::kAuto).value().backend;
}

TEST(Formation, TheChoiceIsByNodes) {
  EXPECT_EQ(automatic({"a"}), Backend::kShm);
  EXPECT_EQ(automatic({"a", "a", "a"}), Backend::kShm);
  EXPECT_EQ(automatic({"a", "b"}), Backend::kTcp);
  EXPECT_EQ(automatic({"a", "b", "c"}), Backend::kTcp);
  EXPECT_EQ(automatic({"a", "b", "a"}), Backend::kHier);
}

TEST(Formation, FM1_EveryNodeThatSharesHasOneMemoryByItsLowestRank) {
  const FormationPlan plan = plan_formation(on({"b", "a", "c", "a", "b", "a"}), Backend::kAuto).value();
  EXPECT_EQ(plan.backend, Backend::kHier);
  ASSERT_EQ(plan.memories.size(), 2u);
  EXPECT_EQ(plan.memories[0].node, "b");
  EXPECT_EQ(plan.memories[0].ranks, (std::vector{0, 4}));
  EXPECT_EQ(plan.memories[1].node, "a");
  EXPECT_EQ(plan.memories[1].ranks, (std::vector{1, 3, 5}));
  const FormationPlan one = plan_formation(on({"a"}), Backend::kAuto).value();
  ASSERT_EQ(one.memories.size(), 1u);
  EXPECT_EQ(one.memories[0].ranks, std::vector{0});
}

TEST(Formation, FM2_WhatIsAskedForComesOrIsRefusedByName) {
  EXPECT_EQ(plan_formation(on({"a", "a"}), Backend::kTcp).value().backend, Backend::kTcp);
  EXPECT_TRUE(plan_formation(on({"a", "a"}), Backend::kTcp).value().memories.empty());
  EXPECT_EQ(plan_formation(on({"a", "b"}), Backend::kHier).value().memories.size(), 0u);
  const auto far = plan_formation(on({"a", "a", "b"}), Backend::kShm);
  ASSERT_FALSE(far.ok());
  EXPECT_EQ(far.error().code(), ErrorCode::kInvalidArgument);
  for (const char* word : {"rank 2", "actor2", "node b"})
    EXPECT_NE(far.error().message().find(word), std::string::npos) << far.error().message();
  const auto deaf = plan_formation(on({"a", "b-"}), Backend::kAuto);
  ASSERT_FALSE(deaf.ok());
  for (const char* word : {"rank 1", "actor1", "node b-", "data port"})
    EXPECT_NE(deaf.error().message().find(word), std::string::npos) << deaf.error().message();
  EXPECT_EQ(plan_formation(on({"a", "b", "b"}), Backend::kNccl).value().backend, Backend::kHier)
      << "FM-3: its control links";
}

// One rank without a GPU, or a backend that was asked for: the group is planned and entered as if nobody had one.
TEST(Formation, FM4_NcclComesBesideWhereEveryRankHoldsAGpuAndNothingWasAskedFor) {
  std::vector<GroupMember> members = on({"a", "b", "a"});
  EXPECT_FALSE(nccl_beside(members, Backend::kAuto));
  for (GroupMember& member : members) member.gpu = true;
  EXPECT_TRUE(nccl_beside(members, Backend::kAuto));
  EXPECT_EQ(plan_formation(members, Backend::kAuto).value().backend, Backend::kHier)
      << "its control links are those without GPUs";
  for (Backend asked : {Backend::kShm, Backend::kTcp, Backend::kHier, Backend::kNccl})
    EXPECT_FALSE(nccl_beside(members, asked)) << backend_name(asked);
  for (GroupMember& member : members) {
    member.gpu = false;
    EXPECT_FALSE(nccl_beside(members, Backend::kAuto));
    member.gpu = true;
  }
}

TEST(Formation, NamesOfBackends) {
  EXPECT_EQ(backend_named("").value(), Backend::kAuto);
  for (Backend backend : {Backend::kAuto, Backend::kShm, Backend::kTcp, Backend::kHier, Backend::kNccl})
    EXPECT_EQ(backend_named(backend_name(backend)).value(), backend);
  const auto wrong = backend_named("smoke");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code(), ErrorCode::kInvalidArgument);
  EXPECT_NE(wrong.error().message().find("hier"), std::string::npos);
}

GroupRecord sample() {
  GroupRecord record{.epoch = 3,
                     .destroyed = false,
                     .timeout_ns = 5'000'000,
                     .backend = Backend::kHier,
                     .asked = Backend::kAuto,
                     .deterministic = true,
                     .id = 0xfedcba9876543210u,
                     .secret = std::string(64, 'a'),
                     .founder = {2, 9},
                     .memories = {{"a", 4711, 12}},
                     .members = on({"a", "a", "b-"})};
  record.members[1].gpu = true;
  return record;
}

TEST(Record, ComesBackAsItWasWritten) {
  const GroupRecord back = decode_record(encode(sample())).value();
  EXPECT_EQ(encode(back), encode(sample()));
  EXPECT_EQ(back.id, sample().id);
  EXPECT_EQ(back.backend, Backend::kHier);
  EXPECT_TRUE(back.deterministic);
  EXPECT_EQ(back.founder, (ProcessId{2, 9}));
  ASSERT_EQ(back.members.size(), 3u);
  EXPECT_EQ(back.members[1].process, (ProcessId{2, 7}));
  EXPECT_EQ(back.members[1].restarts, 1);
  EXPECT_EQ(back.members[2].data_address, "");
  EXPECT_TRUE(back.members[1].gpu);
  EXPECT_FALSE(back.members[2].gpu);
  EXPECT_EQ(back.memories[0].pid, 4711);
}

TEST(Record, WhatIsCutShortOrForeignIsAnError) {
  const std::string whole = encode(sample());
  for (std::size_t size = 0; size < whole.rfind(' '); ++size)
    EXPECT_FALSE(decode_record(whole.substr(0, size)).ok()) << whole.substr(0, size);
  EXPECT_EQ(encode(decode_record(whole).value()), whole);
  EXPECT_FALSE(decode_record(whole + " more").ok());
  EXPECT_FALSE(decode_record("troupe-group-1 1 0 5 6 7 8 0").ok());
  EXPECT_FALSE(decode_record("troupe-group-3 1 0 5 9 0 0 1 aa 1 1 0 0").ok());        // no such backend
  EXPECT_FALSE(decode_record("troupe-group-3 1 0 5 1 0 0 1 aa 1 1 99999999 a").ok());  // as many memories as bytes
}

}  // namespace
}  // namespace troupe::collective

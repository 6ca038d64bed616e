// SMP-1, SMP-2, ONP-1: columns of a batch in one piece of memory.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/samples/on_policy.h"
#include "apps/rl/samples/sample_batch.h"

namespace {

using namespace rl;

const std::vector<Column> kColumns{{.name = "obs", .dtype = DType::kUint8, .width = 3},
                                   {.name = "action", .dtype = DType::kInt64},
                                   {.name = "reward"}};

TEST(SampleBatch, SMP1_ColumnsAreAlignedAndDoNotOverlap) {
  OwnedSamples samples(kColumns, 5);
  std::size_t covered = 0;
  for (const Column& column : kColumns) {
    const Rows rows = samples.column(column.name);
    EXPECT_EQ(rows.rows(), 5u);
    EXPECT_EQ(rows.dtype(), column.dtype);
    const auto offset = static_cast<std::size_t>(rows.data() - samples.memory());
    EXPECT_EQ(offset % kColumnAlignment, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows.data()) % kColumnAlignment, 0u);
    EXPECT_GE(offset, covered);
    covered = offset + rows.bytes();
  }
  EXPECT_LE(covered, samples.layout().bytes());
}

TEST(SampleBatch, SMP2_UnknownAndDoubleNamesAreRefused) {
  const OwnedSamples samples(kColumns, 2);
  EXPECT_TRUE(samples.view().has("reward"));
  EXPECT_FALSE(samples.view().has("rewards"));
  try {
    static_cast<void>(samples.view().column("rewards"));
    FAIL();
  } catch (const troupe::InvalidArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("obs, action, reward"), std::string::npos) << error.what();
  }
  EXPECT_THROW(SampleLayout({{.name = "a"}, {.name = "a"}}, 1), troupe::InvalidArgumentError);
}

// Before, their bytes were counted modulo 2^64.
TEST(SampleBatch, MoreRowsThanMemoryIsRefused) {
  constexpr std::size_t kRows = std::size_t{1} << 61;
  EXPECT_THROW(SampleLayout({{.name = "a", .width = 2}}, kRows), troupe::InvalidArgumentError);
  EXPECT_THROW(SampleLayout({{.name = "a"}, {.name = "b"}}, kRows), troupe::InvalidArgumentError);
}

TEST(SampleBatch, OnesAreJoinedInTheirOrderAndRowsGathered) {
  OwnedSamples first(kColumns, 2), second(kColumns, 3);
  float next = 0;
  for (OwnedSamples* part : {&first, &second}) {
    for (float& reward : part->column("reward").as<float>()) reward = next++;
    auto obs = part->column("obs").as<std::uint8_t>();
    for (std::size_t i = 0; i < obs.size(); ++i) obs[i] = static_cast<std::uint8_t>(10 * part->rows() + i);
  }
  const std::vector<SampleView> parts{first.view(), second.view()};
  OwnedSamples joined = concatenate(parts);
  ASSERT_EQ(joined.rows(), 5u);
  const auto rewards = joined.column("reward").as<float>();
  EXPECT_EQ(std::vector<float>(rewards.begin(), rewards.end()), (std::vector<float>{0, 1, 2, 3, 4}));

  OwnedSamples picked(kColumns, 3);
  const std::vector<std::uint32_t> rows{4, 0, 4};
  for (const Column& column : kColumns) gather(joined.view().column(column.name), rows, picked.column(column.name));
  const auto got = picked.column("reward").as<float>();
  EXPECT_EQ(std::vector<float>(got.begin(), got.end()), (std::vector<float>{4, 0, 4}));
  const auto obs = picked.column("obs").as<std::uint8_t>();
  EXPECT_EQ(std::vector<int>(obs.begin(), obs.end()), (std::vector<int>{36, 37, 38, 20, 21, 22, 36, 37, 38}));

  const OwnedSamples other({{.name = "obs"}}, 1);
  EXPECT_THROW(static_cast<void>(concatenate(std::vector<SampleView>{first.view(), other.view()})),
               troupe::InvalidArgumentError);
  EXPECT_THROW(static_cast<void>(concatenate({})), troupe::InvalidArgumentError);
}

TEST(SampleBatch, OnPolicyColumnsAreThoseOfTheSpaces) {
  const Box image{.dtype = DType::kUint8, .shape = {4, 2, 2}, .low = {0}, .high = {255}};
  OwnedSamples samples(on_policy_columns(image, MultiDiscrete{.nvec = {2, 3}}), 4);
  const OnPolicyOut out = on_policy_out(samples.layout(), samples.memory());
  EXPECT_EQ(out.obs.width(), 16u);
  EXPECT_EQ(out.action.width(), 2u);
  out.value[3] = 2.5f;
  EXPECT_EQ(on_policy_view(samples.view()).value[3], 2.5f);
  EXPECT_EQ(on_policy_view(samples.view()).rows(), 4u);
}

}  // namespace

// SPA-1 to SPA-3, RWS-1: spaces and rows.
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/spaces/rows.h"
#include "apps/rl/spaces/space.h"

namespace rl {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

const std::vector<Space>& some_spaces() {
  static const std::vector<Space> all{
      Discrete{.n = 3},
      Discrete{.n = 2, .start = -1},
      MultiDiscrete{.nvec = {3, 2}},
      MultiDiscrete{.nvec = {3, 2}, .start = {0, 5}},
      Box{.dtype = DType::kFloat32, .shape = {2}, .low = {-1, -kInf}, .high = {1, kInf}},
      Box{.dtype = DType::kFloat32, .shape = {2}, .low = {-4 * 3.14159265F, -0.1}, .high = {9 * 3.14159265F, 0.1}},
      Box{.dtype = DType::kUint8, .shape = {84, 84, 4}, .low = {0}, .high = {255}},
      Box{.dtype = DType::kBool, .shape = {10, 10, 4}, .low = {0}, .high = {1}}};
  return all;
}

TEST(SpaceTest, SPA1_ShapeTypeAndNumberOfElements) {
  const std::vector<std::size_t> elements{1, 1, 2, 2, 2, 2, 84 * 84 * 4, 400};
  for (std::size_t i = 0; i < elements.size(); ++i) {
    SCOPED_TRACE(to_string(some_spaces()[i]));
    EXPECT_TRUE(check_space(some_spaces()[i]).ok());
    EXPECT_EQ(elements_of(some_spaces()[i]), elements[i]);
  }
  EXPECT_EQ(dtype_of(some_spaces()[0]), DType::kInt64);
  EXPECT_EQ(dtype_of(some_spaces()[2]), DType::kInt64);
  EXPECT_EQ(dtype_of(some_spaces()[6]), DType::kUint8);
  EXPECT_TRUE(shape_of(some_spaces()[0]).empty());
}

TEST(SpaceTest, SPA3_WhatIsWrittenIsReadBack) {
  for (const Space& space : some_spaces()) {
    const auto text = boost::json::serialize(to_json(space));
    const auto back = space_from_json(boost::json::parse(text));
    ASSERT_TRUE(back.ok()) << text << ": " << back.error().what();
    EXPECT_EQ(*back, space) << text;
  }
}

TEST(SpaceTest, SPA3_BoundsMayLieInListsAsNumPyWritesThem) {
  const auto read = space_from_json(boost::json::parse(
      R"({"type": "Box", "dtype": "float64", "shape": [2, 2], "low": [[0, 1], [2, "-inf"]],
          "high": [[5, 6], [7, 8]]})"));
  ASSERT_TRUE(read.ok()) << read.error().what();
  const Box& box = std::get<Box>(*read);
  EXPECT_EQ(box.low, (std::vector<double>{0, 1, 2, -kInf}));
  EXPECT_EQ(box.high_of(3), 8);
}

TEST(SpaceTest, WhatIsNoSpaceIsRefusedAndNamed) {
  const std::vector<std::pair<const char*, const char*>> cases{
      {R"({"type": "Dict", "subspaces": {}})", "Dict"},
      {R"({"type": "Tuple", "subspaces": []})", "Tuple"},
      {R"({"type": "Discrete"})", "\"n\""},
      {R"({"type": "Discrete", "n": 0})", "at least one"},
      {R"({"type": "Discrete", "n": 2.5})", "whole number"},
      {R"({"type": "Discrete", "n": 2147483649})", "2^31"},
      {R"({"type": "MultiDiscrete", "nvec": []})", "at least one"},
      {R"({"type": "MultiDiscrete", "nvec": [2147483647, 2147483647]})", "2^31"},
      {R"({"type": "MultiDiscrete", "nvec": [9223372036854775807, 9223372036854775807]})", "2^31"},
      {R"({"type": "MultiDiscrete", "nvec": [2], "start": [0, 0]})", "one start"},
      {R"({"type": "Box", "dtype": "float16", "shape": [1], "low": 0, "high": 1})", "float16"},
      {R"({"type": "Box", "dtype": 3, "shape": [1], "low": 0, "high": 1})", "dtype"},
      {R"({"type": "Box", "dtype": "float32", "shape": [3], "low": [0, 0], "high": 1})", "one bound or as many"},
      {R"({"type": "Box", "dtype": "float32", "shape": [0], "low": 0, "high": 1})", "length 0"},
      {R"({"type": "Box", "dtype": "float32", "shape": [-1], "low": 0, "high": 1})", "negative"},
      {R"({"type": "Box", "dtype": "uint8", "shape": [65536, 65536, 2], "low": 0, "high": 1})", "2^32"},
      {R"({"type": "Box", "dtype": "float32", "shape": [1], "low": 2, "high": 1})", "cross"},
      {R"({"type": "Box", "dtype": "float32", "shape": [1], "low": "low", "high": 1})", "number"},
      {R"([1, 2])", "object"}};
  for (const auto& [text, named] : cases) {
    const auto read = space_from_json(boost::json::parse(text));
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().code(), troupe::ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(read.error().what()).find(named), std::string::npos) << text << ": " << read.error().what();
  }
}

TEST(RowsTest, RWS1_RowsAreReadAsWhatTheyAre) {
  OwnedRows rows(Box{.dtype = DType::kFloat32, .shape = {2, 3}, .low = {0}, .high = {1}}, 4);
  EXPECT_EQ(rows.view().rows(), 4u);
  EXPECT_EQ(rows.view().width(), 6u);
  EXPECT_EQ(rows.view().row_bytes(), 24u);
  rows.view().row(2).as<float>()[1] = 7;
  EXPECT_EQ(rows.as<float>()[13], 7);
  EXPECT_EQ(std::as_const(rows).view().slice(2, 2).as<float>()[1], 7);
  EXPECT_THROW((void)rows.as<double>(), troupe::InvalidArgumentError);

  std::vector<std::int64_t> actions{3, 1, 2};
  const ConstRows view(std::span<const std::int64_t>(actions), 1);
  EXPECT_EQ(view.rows(), 3u);
  EXPECT_EQ(view.row(1).as<std::int64_t>()[0], 1);
}

}  // namespace
}  // namespace rl

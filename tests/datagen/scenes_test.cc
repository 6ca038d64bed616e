// SCD-1, RAY-2, SCE-1: rendered scenes. That they are the same however they are cut: generators_test.cc.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/datagen/generators/scenes/ray_marcher.h"
#include "apps/datagen/generators/scenes/scene.h"
#include "apps/datagen/generators/scenes/scenes.h"
#include "tests/datagen/samples.h"

namespace {

using namespace datagen;
using namespace datagen::test;

TEST(Solid, DistancesAreThoseOfTheShape) {
  const Solid sphere{.shape = Shape::kSphere, .centre = {1, 2, 3}, .size = 0.5F};
  EXPECT_FLOAT_EQ(sphere.distance({1, 2, 5}), 1.5F);
  EXPECT_FLOAT_EQ(sphere.distance({1, 2, 3}), -0.5F);
  const Solid box{.shape = Shape::kBox, .centre = {}, .size = 1};
  EXPECT_FLOAT_EQ(box.distance({3, 0, 0}), 2);
  EXPECT_FLOAT_EQ(box.distance({2, 2, 0}), std::sqrt(2.0F));
  EXPECT_FLOAT_EQ(box.distance({0, 0, 0.25F}), -0.75F);
  const float half = std::sqrt(0.5F);
  const Solid turned{.shape = Shape::kBox, .centre = {}, .size = 1, .cosine = half, .sine = half};
  EXPECT_NEAR(turned.distance({3, 0, 0}), 3 - std::sqrt(2.0F), 1e-6);  // at its edge
  const Solid cylinder{.shape = Shape::kCylinder, .centre = {}, .size = 1};
  EXPECT_FLOAT_EQ(cylinder.distance({0, 0, 4}), 3);
  EXPECT_FLOAT_EQ(cylinder.distance({0, 3, 0}), 2);
}

TEST(Scene, SolidsStandOnTheFloorAndDoNotTouch) {  // SCD-1
  std::set<Shape> shapes;
  std::set<std::size_t> counts;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const Scene scene = draw_scene(Stream(1, 0, i), 5);
    counts.insert(scene.solids.size());
    for (const Solid& one : scene.solids) {
      shapes.insert(one.shape);
      EXPECT_EQ(one.centre.y, one.size);
      for (const Solid& other : scene.solids)
        if (&one != &other) {
          EXPECT_GT(std::hypot(one.centre.x - other.centre.x, one.centre.z - other.centre.z), one.size + other.size);
        }
    }
  }
  EXPECT_EQ(shapes.size(), kShapes);
  EXPECT_EQ(*counts.begin(), 1u);
  EXPECT_EQ(*counts.rbegin(), 5u);
}

TEST(RayMarcher, DepthIsTheDistanceToWhatIsSeen) {  // RAY-2
  Scene scene;
  scene.solids = {{.shape = Shape::kSphere, .centre = {0, 1, 0}, .size = 1, .color = {1, 0, 0}}};
  scene.camera = {.eye = {0, 1, 5}, .forward = {0, 0, -1}, .right = {1, 0, 0}, .up = {0, 1, 0}};
  scene.to_light = unit({0, 1, 1});
  constexpr std::size_t kSize = 65;  // the middle pixel looks ahead
  std::vector<std::uint8_t> image(3 * kSize * kSize);
  std::vector<float> depth(kSize * kSize);
  std::vector<std::int16_t> solid(kSize * kSize);
  render(scene, {.height = kSize, .width = kSize, .image = image, .depth = depth, .solid = solid});
  const std::size_t middle = kSize / 2 * kSize + kSize / 2;
  EXPECT_EQ(solid[middle], 0);
  EXPECT_NEAR(depth[middle], 4, 0.01);
  EXPECT_GT(image[3 * middle], image[3 * middle + 1]);  // red
  EXPECT_EQ(solid[kSize / 2], kSky);
  EXPECT_EQ(depth[kSize / 2], 0);
  const std::size_t below = (kSize - 1) * kSize;  // the left lower corner: the floor
  EXPECT_EQ(solid[below], kFloor);
  const float v = -(static_cast<float>(kSize) - 1) / kSize, u = v, along = std::sqrt(1.7F * 1.7F + u * u + v * v);
  EXPECT_NEAR(depth[below], along / -v, 0.02);  // one metre down
}

TEST(RayMarcher, WhatIsBehindASolidFromTheLightIsDarker) {
  Scene scene;
  scene.camera = {.eye = {0, 6, 0}, .forward = {0, -1, 0}, .right = {1, 0, 0}, .up = {0, 0, -1}};
  scene.to_light = unit({-1, 1, 0});
  constexpr std::size_t kSize = 64;
  std::vector<float> depth(kSize * kSize);
  std::vector<std::int16_t> solid(kSize * kSize);
  const auto rendered = [&] {
    std::vector<std::uint8_t> image(3 * kSize * kSize);
    render(scene, {.height = kSize, .width = kSize, .image = image, .depth = depth, .solid = solid});
    return image;
  };
  const std::vector<std::uint8_t> empty = rendered();
  scene.solids = {{.shape = Shape::kSphere, .centre = {0, 0.7F, 0}, .size = 0.7F, .color = {1, 1, 1}}};
  const std::vector<std::uint8_t> image = rendered();
  std::size_t darker_right = 0, darker_left = 0;
  for (std::size_t pixel = 0; pixel < kSize * kSize; ++pixel)
    if (solid[pixel] == kFloor && image[3 * pixel] < empty[3 * pixel])
      (pixel % kSize < kSize / 2 ? darker_left : darker_right) += 1;
  EXPECT_GT(darker_right, 20u);
  EXPECT_EQ(darker_left, 0u);
}

TEST(Scenes, BoxesHoldThePixelsOfTheirSolids) {
  const auto generator = make(scenes(), {{"width", "48"}, {"height", "32"}}, {.seed = 3});
  std::size_t boxes = 0;
  generator->generate({0, 40}, [&](const Table& table) {
    ASSERT_TRUE(check_schema(table.schema()).ok());
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const boost::json::array all = boost::json::parse(table.column(2).text(row)).as_array();
      EXPECT_EQ(static_cast<std::int32_t>(all.size()), table.column(3).values<std::int32_t>()[row]);
      std::int64_t left = -1;
      for (const boost::json::value& one : all) {
        ++boxes;
        const auto number = [&](const char* name) { return one.at(name).to_number<std::int64_t>(); };
        EXPECT_GE(number("x"), left);
        left = number("x");
        EXPECT_LE(number("x") + number("width"), 48);
        EXPECT_LE(number("y") + number("height"), 32);
        EXPECT_GE(number("pixels"), std::max(number("width"), number("height")));  // some in each row and column
        EXPECT_LE(number("pixels"), number("width") * number("height"));
        EXPECT_EQ(one.at("name").as_string(), name_of(static_cast<Shape>(number("class"))));
      }
    }
  });
  EXPECT_GT(boxes, 40u);
}

TEST(Scenes, TheContactSheetIsAPng) {
  const std::string png = options_of(scenes(), {{"width", "16"}, {"height", "16"}})->picture({.seed = 1}).value();
  EXPECT_TRUE(png.starts_with("\x89PNG\r\n"));
}

/// Of the samples that there are, and of no more than make a sheet of a moment's work.
TEST(Scenes, TheContactSheetIsBounded) {
  const auto across = [](const char* width, const char* height, std::uint64_t samples) {
    const std::string png =
        options_of(scenes(), {{"width", width}, {"height", height}})->picture({.seed = 1, .samples = samples}).value();
    return static_cast<unsigned char>(png.at(18)) << 8 | static_cast<unsigned char>(png.at(19));  // of its head
  };
  EXPECT_EQ(across("16", "16", 100), 2 + 8 * (16 + 2));
  EXPECT_EQ(across("16", "16", 3), 2 + 3 * (16 + 2));
  EXPECT_EQ(across("1024", "1024", 100), 2 + 2 * (1024 + 2));
}

}  // namespace

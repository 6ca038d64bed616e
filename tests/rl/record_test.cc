// CNV-1, CNV-2, DRW-1, DRW-2, PAL-1, GIF-1 to GIF-4, FRW-1 to FRW-3, and PNG files: pictures, read back by what reads
// them.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "apps/rl/envs/batch_env.h"
#include "apps/rl/envs/env_registry.h"
#include "apps/rl/record/canvas.h"
#include "apps/rl/record/draw.h"
#include "apps/rl/record/draw_classic.h"
#include "apps/rl/record/draw_grid.h"
#include "apps/rl/record/frame_writer.h"
#include "apps/rl/record/gif_writer.h"
#include "apps/rl/record/palette.h"
#include "apps/rl/record/png.h"
#include "tests/rl/full_disk.h"
#include "tests/base/temporary_folder.h"
#if TROUPE_HAS_GIFLIB
#include <gif_lib.h>
#endif

namespace {

using namespace rl;
using troupe::test::bytes_of;
using rl_test::FullDisk;
using troupe::test::TemporaryFolder;

constexpr Color kWhite{255, 255, 255}, kBlack{0, 0, 0}, kRed{255, 0, 0};

template <class T>
void expect_error(const troupe::Result<T>& result, troupe::ErrorCode code) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), code) << result.error().message();
}

// How much of the frame is black, in pixels; what is drawn black on white.
double ink(const Frame& frame) {
  double sum = 0;
  for (std::size_t i = 0; i < frame.rgb.size(); i += 3) sum += 1 - frame.rgb[i] / 255.0;
  return sum;
}

TEST(Canvas, CNV1_ShapesCoverTheirArea) {
  Canvas box(40, 30, kWhite);
  box.box({.left = 0, .right = 10, .bottom = 0, .top = 5}, 0, {3, 4}, kBlack);
  EXPECT_DOUBLE_EQ(ink(box.frame()), 50);
  EXPECT_EQ(box.frame().at(3, 30 - 1 - 4), kBlack) << "the lowest left pixel of it";
  EXPECT_EQ(box.frame().at(2, 30 - 1 - 4), kWhite);
  EXPECT_EQ(box.frame().at(12, 30 - 1 - 8), kBlack);
  EXPECT_EQ(box.frame().at(12, 30 - 1 - 9), kWhite);
  Canvas turned(60, 60, kWhite);
  turned.box({.left = -10, .right = 10, .bottom = -6, .top = 6}, 0.7, {30, 30}, kBlack);
  EXPECT_NEAR(ink(turned.frame()), 240, 2.4);
  Canvas circle(60, 60, kWhite);
  circle.circle({30.3, 29.6}, 20, kBlack);
  EXPECT_NEAR(ink(circle.frame()), std::numbers::pi * 400, 4);
  Canvas line(60, 60, kWhite);
  line.line(std::vector<Spot>{{5, 5}, {30, 20}, {50, 50}}, 2, kBlack);
  EXPECT_NEAR(ink(line.frame()), 2 * (std::hypot(25, 15) + std::hypot(20, 30)), 4);
  // A half pixel is a half color, in steps of 1/16.
  Canvas half(4, 4, kWhite);
  half.box({.left = 0, .right = 0.5, .bottom = 0, .top = 1}, 0, {1, 1}, kBlack);
  EXPECT_EQ(half.frame().at(1, 2), (Color{128, 128, 128}));
}

TEST(Canvas, CNV1_CNV2_NothingOutsideAndNothingThatIsNotFinite) {
  Canvas canvas(20, 10, kWhite);
  canvas.box({.left = 0, .right = 1e9, .bottom = 0, .top = 5}, 0, {15, -1e3}, kBlack);
  canvas.circle({-100, 5}, 20, kBlack);
  EXPECT_EQ(canvas.frame(), Frame(20, 10, kWhite));
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  canvas.circle({nan, 5}, 3, kBlack);
  canvas.circle({5, 5}, nan, kBlack);
  canvas.circle({5, 5}, infinity, kBlack);
  canvas.line(std::vector<Spot>{{0, 0}, {infinity, 3}}, 2, kBlack);
  canvas.line(std::vector<Spot>{{3, 3}, {3, 3}}, 2, kBlack);
  canvas.fill(std::vector<Spot>{{1, 1}, {2, 2}}, kBlack);
  EXPECT_EQ(canvas.frame(), Frame(20, 10, kWhite));
  canvas.circle({20, 10}, 1e5, kBlack);
  EXPECT_EQ(canvas.frame(), Frame(20, 10, kBlack)) << "what is larger than the frame fills it";
}

Box observations(std::vector<std::size_t> shape, DType dtype = DType::kFloat32) {
  return {.dtype = dtype, .shape = std::move(shape), .low = {-10}, .high = {10}};
}

Frame drawn(std::string_view id, std::vector<float> row) {
  return draw(id, observations({row.size()}), ConstRows(std::span<const float>(row), row.size())).value();
}

// The mean place of the pixels of a color, from the lower left corner. Edges, which may mix to the same color, do not
// count: the pixels beside have to be of that color too.
Spot center_of(const Frame& frame, Color color) {
  double x = 0, y = 0, count = 0;
  for (int row = 1; row + 1 < frame.height; ++row)
    for (int column = 1; column + 1 < frame.width; ++column)
      if (frame.at(column, row) == color && frame.at(column - 1, row) == color && frame.at(column + 1, row) == color &&
          frame.at(column, row - 1) == color && frame.at(column, row + 1) == color)
        x += column + 0.5, y += frame.height - row - 0.5, ++count;
  return {x / count, y / count};
}

void expect_spot(Spot got, Spot want) {
  EXPECT_NEAR(got.x, want.x, 1);
  EXPECT_NEAR(got.y, want.y, 1);
}

TEST(Draw, CartPoleStandsWhereItIsAndLeansClockwise) {
  constexpr Color kPole{202, 152, 101}, kAxle{129, 132, 203};
  const Frame middle = drawn("CartPole-v1", {0, 0, 0, 0});
  EXPECT_EQ(middle.width, 600);
  EXPECT_EQ(middle.height, 400);
  expect_spot(center_of(middle, kAxle), {300, 107.5});
  EXPECT_NEAR(center_of(middle, kPole).x, 300, 1);
  const Frame right = drawn("CartPole-v1", {1.2f, 0, 0.2f, 0});
  expect_spot(center_of(right, kAxle), {450, 107.5});
  EXPECT_GT(center_of(right, kPole).x, 455);
  EXPECT_LT(center_of(drawn("CartPole-v1", {0, 0, -0.2f, 0}), kPole).x, 295);
  EXPECT_EQ(drawn("gym:CartPole-v1", {0, 0, 0, 0}), middle);
  EXPECT_EQ(drawn("CartPole-v1", {0, 9, 0, 9}), middle) << "velocities are not seen";
}

TEST(Draw, AcrobotHangsAndReaches) {
  constexpr Color kLink{0, 204, 204};
  const auto at = [](double first, double second) {
    return drawn("Acrobot-v1", {static_cast<float>(std::cos(first)), static_cast<float>(std::sin(first)),
                                static_cast<float>(std::cos(second)), static_cast<float>(std::sin(second)), 0, 0});
  };
  const double scale = 500 / 4.4;
  const Spot hanging = center_of(at(0, 0), kLink), up = center_of(at(std::numbers::pi, 0), kLink),
             right = center_of(at(std::numbers::pi / 2, 0), kLink),
             bent = center_of(at(0, std::numbers::pi / 2), kLink);
  EXPECT_NEAR(hanging.x, 250, 1);
  EXPECT_NEAR(hanging.y, 250 - scale, 8);
  EXPECT_NEAR(up.y, 250 + scale, 8);
  EXPECT_NEAR(right.x, 250 + scale, 8);
  EXPECT_GT(bent.x, 250 + scale / 5);
}

TEST(Draw, MountainCarDrivesFromLeftToRightAndTheFlagIsWhereTheGoalIs) {
  constexpr Color kWheel{128, 128, 128}, kFlag{204, 204, 0};
  double before = -1;
  for (const float position : {-1.1f, -0.5f, 0.0f, 0.4f}) {
    const Spot wheels = center_of(drawn("MountainCar-v0", {position, 0}), kWheel);
    EXPECT_GT(wheels.x, before);
    before = wheels.x;
    EXPECT_NEAR(wheels.x, (static_cast<double>(position) + 1.2) / 1.8 * 600, 3) << position;
  }
  const double difference = center_of(drawn("MountainCar-v0", {0, 0}), kFlag).x -
                            center_of(drawn("MountainCarContinuous-v0", {0, 0}), kFlag).x;
  EXPECT_NEAR(difference, 0.05 / 1.8 * 600, 1);
}

TEST(Draw, PendulumTurnsCounterClockwiseAndShowsTheTorqueThatItIsGiven) {
  constexpr Color kRod{204, 77, 77};
  const auto row = [](double angle) {
    return std::vector<float>{static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle)), 0};
  };
  EXPECT_GT(center_of(drawn("Pendulum-v1", row(0)), kRod).y, 290);
  EXPECT_LT(center_of(drawn("Pendulum-v1", row(std::numbers::pi)), kRod).y, 210);
  EXPECT_LT(center_of(drawn("Pendulum-v1", row(std::numbers::pi / 2)), kRod).x, 210);
  const std::vector<float> up = row(0);
  const ConstRows one(std::span<const float>(up), 3);
  const Frame still = draw("Pendulum-v1", observations({3}), one).value();
  EXPECT_EQ(draw("Pendulum-v1", observations({3}), one, 0.0).value(), still);
  const Frame left = draw("Pendulum-v1", observations({3}), one, 2.0).value();
  const Frame right = draw("Pendulum-v1", observations({3}), one, -2.0).value();
  EXPECT_NE(left, still);
  EXPECT_NE(left, right);
  EXPECT_EQ(draw("Pendulum-v1", observations({3}), one, 5.0).value(), left) << "no more than the motor has";
}

TEST(Draw, AnObservationThatIsNotFiniteGivesAPicture) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, infinity, -infinity, 1e30f}) {
    EXPECT_EQ(drawn("CartPole-v1", {bad, 0, bad, 0}).width, 600);
    EXPECT_EQ(drawn("Acrobot-v1", {bad, bad, bad, bad, 0, 0}).width, 500);
    EXPECT_EQ(drawn("MountainCar-v0", {bad, 0}).width, 600);
    EXPECT_EQ(drawn("Pendulum-v1", {bad, bad, 0}).width, 500);
  }
}

TEST(Draw, DRW1_GridsInTheColorsOfTheirHighestChannel) {
  const Box space{.dtype = DType::kBool, .shape = {2, 3, 4}, .low = {0}, .high = {1}};
  std::vector<std::uint8_t> cells(24, 0);
  cells[0 * 12 + 1 * 4 + 2] = 1;                        // row 0, column 1, channel 2
  cells[1 * 12 + 2 * 4 + 0] = cells[1 * 12 + 2 * 4 + 3] = 1;  // row 1, column 2, channels 0 and 3
  const ConstRows row(DType::kBool, 1, 24, reinterpret_cast<const std::byte*>(cells.data()));
  const Frame frame = draw("MinAtar/Breakout-v1", space, row).value();
  ASSERT_EQ(frame.width, 3 * (400 / 3));
  ASSERT_EQ(frame.height, 2 * (400 / 3));
  const int cell = 400 / 3;
  EXPECT_EQ(frame.at(0, 0), kBlack);
  EXPECT_EQ(frame.at(cell, 0), channel_color(2, 4));
  EXPECT_EQ(frame.at(2 * cell - 1, cell - 1), channel_color(2, 4));
  EXPECT_EQ(frame.at(2 * cell, cell), channel_color(3, 4));
  EXPECT_EQ(frame.at(2 * cell - 1, cell), kBlack);
  // seaborn 0.13's color_palette("cubehelix", 4), which MinAtar uses; it takes them from a table of 256.
  const std::vector<Color> seaborn{{22, 61, 78}, {84, 121, 47}, {208, 126, 147}, {193, 202, 243}};
  for (std::size_t i = 0; i < seaborn.size(); ++i) {
    EXPECT_NEAR(channel_color(i, 4).red, seaborn[i].red, 3);
    EXPECT_NEAR(channel_color(i, 4).green, seaborn[i].green, 3);
    EXPECT_NEAR(channel_color(i, 4).blue, seaborn[i].blue, 3);
  }
  std::set<std::tuple<int, int, int>> colors;
  for (std::size_t i = 0; i < 10; ++i) {
    const Color one = channel_color(i, 10);
    colors.insert({one.red, one.green, one.blue});
  }
  EXPECT_EQ(colors.size(), 10u);
}

TEST(Draw, DRW1_ImagesAsTheyAre) {
  const std::vector<std::uint8_t> pixels{255, 0, 0, 1, 2, 3};
  const Frame frame = draw("gym:Any-v0", Box{.dtype = DType::kUint8, .shape = {1, 2, 3}, .low = {0}, .high = {255}},
                           ConstRows(std::span<const std::uint8_t>(pixels), 6))
                          .value();
  EXPECT_EQ(frame.width, 400);
  EXPECT_EQ(frame.height, 200);
  EXPECT_EQ(frame.at(199, 199), kRed);
  EXPECT_EQ(frame.at(200, 0), (Color{1, 2, 3}));
  const std::vector<std::uint8_t> grey{7, 8};
  for (const std::vector<std::size_t>& shape : std::vector<std::vector<std::size_t>>{{2, 1}, {2, 1, 1}})
    EXPECT_EQ(draw("x", Box{.dtype = DType::kUint8, .shape = shape, .low = {0}, .high = {255}},
                   ConstRows(std::span<const std::uint8_t>(grey), 2))
                  .value()
                  .at(0, 399),
              (Color{8, 8, 8}));
}

TEST(Draw, DRW1_WhatCannotBeDrawnIsNotFoundAndRowsMustFit) {
  const std::vector<float> row(4, 0.0f);
  const ConstRows one(std::span<const float>(row), 4);
  for (const auto& [id, space] : std::vector<std::pair<std::string, Space>>{
           {"LunarLander-v3", observations({8})}, {"CartPole-v1", observations({5})}, {"CartPole-v1", Discrete{.n = 2}},
           {"x", observations({4, 4, 2}, DType::kUint8)}, {"x", observations({0, 4, 3}, DType::kUint8)},
           {"x", observations({4}, DType::kBool)}}) {
    expect_error(check_drawable(id, space), troupe::ErrorCode::kNotFound);
    expect_error(draw(id, space, one), troupe::ErrorCode::kNotFound);
  }
  EXPECT_TRUE(check_drawable("CartPole-v1", observations({4})).ok());
  expect_error(draw("CartPole-v1", observations({4}), one.slice(0, 0)), troupe::ErrorCode::kInvalidArgument);
  const std::vector<double> doubles(4, 0.0);
  expect_error(draw("CartPole-v1", observations({4}), ConstRows(std::span<const double>(doubles), 4)),
               troupe::ErrorCode::kInvalidArgument);
}

TEST(Draw, TheClassicFiveOfTheRegistryAreDrawn) {
  for (const char* id : {"CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"}) {
    const auto env = make_batch_env(id, {.num_envs = 1}).value();
    const Space& space = env->specs().observation_space;
    ASSERT_TRUE(check_drawable(id, space).ok()) << id;
    OwnedRows rows(space, 1);
    env->reset(std::vector<std::uint64_t>{3});
    env->observe(rows.view());
    EXPECT_LE(indexed(draw(id, space, rows.view()).value()).colors.size(), 256u);
  }
}

TEST(Palette, PAL1_FewColorsAreKeptAndManyAreReduced) {
  Frame few(16, 16, {});
  for (int i = 0; i < 256; ++i) few.set(i % 16, i / 16, {static_cast<std::uint8_t>(i), 3, 5});
  const Indexed kept = indexed(few);
  ASSERT_EQ(kept.colors.size(), 256u);
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(kept.colors[kept.pixels[static_cast<std::size_t>(i)]], few.at(i % 16, i / 16));
  Frame many(100, 100, {});
  for (int i = 0; i < 10'000; ++i)
    many.set(i % 100, i / 100,
             {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i / 7), static_cast<std::uint8_t>(i / 40)});
  const Indexed reduced = indexed(many);
  EXPECT_LE(reduced.colors.size(), 256u);
  EXPECT_GT(reduced.colors.size(), 32u) << "no more is lost than has to be";
  for (std::size_t i = 0; i < reduced.pixels.size(); ++i)
    EXPECT_NEAR(reduced.colors[reduced.pixels[i]].red, many.rgb[3 * i], 63);
}

std::uint32_t big_endian(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

Frame read_png(const std::string& bytes) {
  EXPECT_EQ(bytes.substr(0, 8), "\x89PNG\r\n\x1a\n");
  Frame frame;
  std::string packed, types;
  for (std::size_t at = 8; at < bytes.size();) {
    const std::size_t length = big_endian(bytes, at);
    const std::string type = bytes.substr(at + 4, 4), data = bytes.substr(at + 8, length);
    EXPECT_EQ(::crc32(0, reinterpret_cast<const Bytef*>(bytes.data() + at + 4), static_cast<uInt>(length + 4)),
              big_endian(bytes, at + 8 + length));
    if (type == "IHDR") frame = Frame(static_cast<int>(big_endian(data, 0)), static_cast<int>(big_endian(data, 4)), {});
    if (type == "IDAT") packed += data;
    types += type;
    at += length + 12;
  }
  EXPECT_EQ(types, "IHDRIDATIEND");
  const auto row = static_cast<std::size_t>(frame.width) * 3;
  std::string rows((row + 1) * static_cast<std::size_t>(frame.height), '\0');
  uLongf size = rows.size();
  EXPECT_EQ(::uncompress(reinterpret_cast<Bytef*>(rows.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                         packed.size()),
            Z_OK);
  EXPECT_EQ(size, rows.size());
  for (std::size_t y = 0; y < static_cast<std::size_t>(frame.height); ++y) {
    EXPECT_EQ(rows[y * (row + 1)], '\0');
    std::memcpy(&frame.rgb[y * row], &rows[y * (row + 1) + 1], row);
  }
  return frame;
}

TEST(Png, ReadsBackToThePixel) {
  const Frame frame = drawn("CartPole-v1", {0.3f, 0, 0.1f, 0});
  const std::string bytes = png_bytes(frame).value();
  EXPECT_EQ(read_png(bytes), frame);
  EXPECT_EQ(bytes.substr(24, 5), std::string("\x08\x02\x00\x00\x00", 5));
  EXPECT_EQ(read_png(png_bytes(Frame(1, 1, kRed)).value()), Frame(1, 1, kRed));
  expect_error(png_bytes({}), troupe::ErrorCode::kInvalidArgument);
}

TEST(FrameWriter, FRW1_FRW2_AFolderOfPngFiles) {
  const TemporaryFolder folder;
  const auto writer = make_frame_writer(folder / "deep/frames", {}).value();
  EXPECT_EQ(writer->output(), folder / "deep/frames");
  expect_error(writer->finish(), troupe::ErrorCode::kInvalidArgument);
  ASSERT_TRUE(writer->add(Frame(4, 3, kRed)).ok());
  expect_error(writer->add(Frame(4, 4, kRed)), troupe::ErrorCode::kInvalidArgument);
  ASSERT_TRUE(writer->add(Frame(4, 3, kBlack)).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(read_png(bytes_of(folder / "deep/frames/frame-00000.png")), Frame(4, 3, kRed));
  EXPECT_EQ(read_png(bytes_of(folder / "deep/frames/frame-00001.png")), Frame(4, 3, kBlack));
  troupe::test::put(folder / "file", "");
  expect_error(make_frame_writer(folder / "file", {}), troupe::ErrorCode::kInvalidArgument);
  expect_error(make_frame_writer("", {}), troupe::ErrorCode::kInvalidArgument);
}

TEST(FrameWriter, FRW3_AFullDiskIsOutOfDiskAndTheFrameCanBeAddedAgain) {
  const TemporaryFolder folder;
  const auto writer = make_frame_writer(folder / "frames", {}).value();
  {
    const FullDisk full(10);
    expect_error(writer->add(Frame(4, 3, kRed)), troupe::ErrorCode::kOutOfDisk);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "frames"));
  ASSERT_TRUE(writer->add(Frame(4, 3, kRed)).ok());
  EXPECT_TRUE(std::filesystem::exists(folder / "frames/frame-00000.png"));
}

#if TROUPE_HAS_GIFLIB

struct Shown {
  Frame frame;
  int hundredths = 0;
};

// What a viewer shows, by giflib's reader.
std::vector<Shown> read_gif(const std::filesystem::path& path) {
  int error = 0;
  GifFileType* gif = ::DGifOpenFileName(path.c_str(), &error);
  if (gif == nullptr || ::DGifSlurp(gif) != GIF_OK) {
    ADD_FAILURE() << "not a GIF: " << path << ", " << error;
    return {};
  }
  std::vector<Shown> out;
  Frame canvas(gif->SWidth, gif->SHeight, kWhite);
  for (int i = 0; i < gif->ImageCount; ++i) {
    const SavedImage& image = gif->SavedImages[i];
    for (int y = 0; y < image.ImageDesc.Height; ++y)
      for (int x = 0; x < image.ImageDesc.Width; ++x) {
        const GifColorType& color =
            image.ImageDesc.ColorMap->Colors[image.RasterBits[y * image.ImageDesc.Width + x]];
        canvas.set(image.ImageDesc.Left + x, image.ImageDesc.Top + y, {color.Red, color.Green, color.Blue});
      }
    GraphicsControlBlock control{};
    EXPECT_EQ(::DGifSavedExtensionToGCB(gif, i, &control), GIF_OK);
    EXPECT_EQ(control.DisposalMode, DISPOSE_DO_NOT);
    out.push_back({canvas, control.DelayTime});
  }
  EXPECT_EQ(::DGifCloseFile(gif, &error), GIF_OK);
  return out;
}

TEST(GifWriter, GIF1_GIF2_GIF3_AViewerShowsTheFrames) {
  const TemporaryFolder folder;
  std::vector<Frame> frames;
  for (int i = 0; i < 12; ++i)
    frames.push_back(drawn("CartPole-v1", {static_cast<float>(i) * 0.05f, 0, static_cast<float>(i) * 0.02f, 0}));
  frames.push_back(frames.back());  // one that changes nothing
  frames.push_back(frames.front());
  GifWriter gif =
      GifWriter::create(folder / "out/a.gif", {.width = 600, .height = 400, .frames_per_second = 30}).value();
  for (const Frame& frame : frames) ASSERT_TRUE(gif.add(frame).ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "out/a.gif"));
  ASSERT_TRUE(gif.finish().ok());
  const std::vector<Shown> shown = read_gif(folder / "out/a.gif");
  ASSERT_EQ(shown.size(), frames.size());
  int time = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(shown[i].frame, frames[i]) << i;
    EXPECT_EQ(time, std::lround(100.0 * static_cast<double>(i) / 30)) << i;
    time += shown[i].hundredths;
  }
  const std::string bytes = bytes_of(folder / "out/a.gif");
  EXPECT_NE(bytes.find("NETSCAPE2.0"), std::string::npos);
  EXPECT_LT(bytes.size(), 14 * 2'000u) << "a picture holds what changed";
  expect_error(gif.add(frames[0]), troupe::ErrorCode::kInvalidArgument);
}

TEST(GifWriter, GIF2_TwoPixelsAndOneColor) {
  const TemporaryFolder folder;
  GifWriter gif = GifWriter::create(folder / "a.gif", {.width = 2, .height = 1, .frames_per_second = 50}).value();
  for (const Color color : {kRed, kRed, kBlack}) ASSERT_TRUE(gif.add(Frame(2, 1, color)).ok());
  ASSERT_TRUE(gif.finish().ok());
  const auto shown = read_gif(folder / "a.gif");
  ASSERT_EQ(shown.size(), 3u);
  EXPECT_EQ(shown[1].frame, Frame(2, 1, kRed));
  EXPECT_EQ(shown[2].frame, Frame(2, 1, kBlack));
  EXPECT_EQ(shown[2].hundredths, 2);
}

TEST(GifWriter, GIF1_FRW3_AFullDiskLeavesNothingAndFinishMayBeRepeated) {
  const TemporaryFolder folder;
  const auto writer = make_frame_writer(folder / "a.gif", {.frames_per_second = 25}).value();
  EXPECT_EQ(writer->output(), folder / "a.gif");
  expect_error(writer->finish(), troupe::ErrorCode::kInvalidArgument);
  ASSERT_TRUE(writer->add(Frame(50, 50, kRed)).ok());
  expect_error(writer->add(Frame(50, 51, kRed)), troupe::ErrorCode::kInvalidArgument);
  {
    const FullDisk full(20);
    expect_error(writer->finish(), troupe::ErrorCode::kOutOfDisk);
  }
  EXPECT_EQ(folder.files(), 0u);
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(read_gif(folder / "a.gif").size(), 1u);
}

TEST(GifWriter, GIF4_WhatTheFormatCannotHoldIsRefused) {
  const TemporaryFolder folder;
  for (const GifOptions& options : {GifOptions{.width = 0, .height = 1}, GifOptions{.width = 1, .height = 70'000},
                                    GifOptions{.width = 1, .height = 1, .frames_per_second = 0},
                                    GifOptions{.width = 1, .height = 1, .frames_per_second = 60},
                                    GifOptions{.width = 1, .height = 1, .frames_per_second = std::nan("")}})
    expect_error(GifWriter::create(folder / "a.gif", options), troupe::ErrorCode::kInvalidArgument);
  expect_error(make_frame_writer(folder / "a.gif", {.frames_per_second = 1'000}), troupe::ErrorCode::kInvalidArgument);
  troupe::test::put(folder / "file", "");
  expect_error(GifWriter::create(folder / "file/a.gif", {.width = 1, .height = 1}),
               troupe::ErrorCode::kInvalidArgument);
}

#else

TEST(GifWriter, GIF4_WithoutGiflibItSaysSoAndRecordingsAreFolders) {
  const TemporaryFolder folder;
  EXPECT_FALSE(gif_is_built());
  expect_error(GifWriter::create(folder / "a.gif", {.width = 1, .height = 1}), troupe::ErrorCode::kInfeasible);
  EXPECT_EQ(make_frame_writer(folder / "a.gif", {}).value()->output(), folder / "a");
}

#endif

}  // namespace

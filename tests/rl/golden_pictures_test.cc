// IMG-1, IMG-2: OpenCV's pictures.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "apps/rl/envs/wrappers/image.h"
#include "tests/rl/golden.h"

namespace {

using golden::at;
using golden::json::value;

/// Shows one picture.
class Shows final : public rl::BatchEnv {
 public:
  Shows(std::vector<std::uint8_t> picture, std::vector<std::size_t> shape) : picture_(std::move(picture)) {
    specs_.id = "Picture-v0";
    specs_.observation_space =
        rl::Box{.dtype = rl::DType::kUint8, .shape = std::move(shape), .low = {0}, .high = {255}};
    specs_.action_space = rl::Discrete{.n = 1};
  }
  const rl::EnvSpecs& specs() const override { return specs_; }
  std::size_t size() const override { return 1; }
  void reset(std::span<const std::uint64_t>) override {}
  void reset_one(std::size_t) override {}
  void observe(rl::Rows obs) const override { std::memcpy(obs.data(), picture_.data(), picture_.size()); }
  void step(rl::ConstRows, const rl::StepOut& out) override { observe(out.obs); }
  rl::EpisodeEnds ends() const override { return {}; }

 private:
  rl::EnvSpecs specs_;
  std::vector<std::uint8_t> picture_;
};

std::vector<std::uint8_t> coloured(const value& c, std::size_t height, std::size_t width) {
  const auto block = static_cast<std::size_t>(golden::integer(at(c, "block")));
  const std::size_t rows = (height + block - 1) / block, columns = (width + block - 1) / block;
  auto state = static_cast<std::uint32_t>(golden::integer(at(c, "seed")));
  std::vector<std::uint8_t> small(rows * columns * 3), out(height * width * 3);
  for (std::uint8_t& number : small) {
    state = (1103515245u * state + 12345u) & 0x7fffffffu;
    number = static_cast<std::uint8_t>(state >> 16);
  }
  for (std::size_t y = 0; y < height; ++y)
    for (std::size_t x = 0; x < width; ++x)
      for (std::size_t k = 0; k < 3; ++k)
        out[(y * width + x) * 3 + k] = small[(y / block * columns + x / block) * 3 + k];
  return out;
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  std::vector<std::uint8_t> out;
  for (std::size_t i = 0; i < text.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
  return out;
}

std::vector<std::uint8_t> shown(const rl::BatchEnv& env) {
  rl::OwnedRows rows(env.specs().observation_space, 1);
  env.observe(rows.view());
  return {rows.as<std::uint8_t>().begin(), rows.as<std::uint8_t>().end()};
}

TEST(GoldenPictures, IMG1_IMG2_EveryNumberIsOpenCvs) {
  const auto files = golden::files_of(golden::Kind::kPictures);
  if (files.empty()) GTEST_SKIP() << "no recorded pictures";
  for (const golden::File* file : files) {
    for (const value& c : file->content.at("pictures").as_array()) {
      SCOPED_TRACE(file->path.string() + " seed " + std::to_string(golden::integer(at(c, "seed"))));
      const auto size = [&](const char* key) { return static_cast<std::size_t>(golden::integer(at(c, key))); };
      const std::size_t height = size("height"), width = size("width");
      const auto made = [&] {
        std::vector<std::size_t> shape{height, width, 3};
        return rl::Grayscale::make(std::make_unique<Shows>(coloured(c, height, width), std::move(shape))).value();
      };
      const std::vector<std::uint8_t> grey = shown(*made());
      const std::vector<std::uint8_t> start = from_hex(golden::text(at(c, "grey_start")));
      ASSERT_LE(start.size(), grey.size());
      EXPECT_EQ(std::vector(grey.begin(), grey.begin() + static_cast<std::ptrdiff_t>(start.size())), start);
      std::int64_t sum = 0;
      for (std::uint8_t number : grey) sum += number;
      EXPECT_EQ(sum, golden::integer(at(c, "grey_sum")));

      const auto small =
          rl::Resize::make(made(), {.height = size("to_height"), .width = size("to_width")}).value();
      EXPECT_EQ(rl::shape_of(small->specs().observation_space), (std::vector{size("to_height"), size("to_width")}));
      const std::vector<std::uint8_t> got = shown(*small), want = from_hex(golden::text(at(c, "small")));
      ASSERT_EQ(got.size(), want.size());
      int differ = 0, most = 0;
      for (std::size_t i = 0; i < got.size(); ++i) {
        differ += got[i] != want[i];
        most = std::max(most, std::abs(got[i] - want[i]));
      }
      EXPECT_EQ(differ, 0) << "of " << got.size() << ", by " << most << " at most";
    }
  }
}

}  // namespace

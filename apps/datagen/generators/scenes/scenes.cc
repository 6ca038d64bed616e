#include "apps/datagen/generators/scenes/scenes.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/json.hpp>

#include "apps/datagen/generators/rows_generator.h"
#include "apps/datagen/generators/scenes/ray_marcher.h"
#include "apps/datagen/random/stream.h"
#include "apps/rl/record/png.h"

namespace datagen {
namespace {

enum SceneColumn : std::size_t { kImage, kDepth, kBoxes, kSolids };
constexpr std::uint32_t kSceneStream = 0;

struct SceneSettings {
  std::uint64_t width = 64, height = 64, solids = 4;
};

Schema scene_schema(const SceneSettings& settings) {
  return {.fields = {{.name = "image", .type = Type::kUInt8, .shape = {settings.height, settings.width, 3},
                      .content = Content::kImage},
                     {.name = "depth", .type = Type::kFloat32, .shape = {settings.height, settings.width}},
                     {.name = "boxes", .type = Type::kString, .content = Content::kJson},
                     {.name = "solids", .type = Type::kInt32}}};
}

/// Where a solid is seen, in pixels.
struct SeenBox {
  std::size_t left = ~std::size_t{0}, top = ~std::size_t{0}, right = 0, bottom = 0, pixels = 0;

  void add(std::size_t row, std::size_t column) {
    left = std::min(left, column), right = std::max(right, column);
    top = std::min(top, row), bottom = std::max(bottom, row);
    ++pixels;
  }
};

boost::json::array boxes_of(const Scene& scene, const RenderOut& out) {
  std::vector<SeenBox> seen(scene.solids.size());
  for (std::size_t row = 0; row < out.height; ++row)
    for (std::size_t column = 0; column < out.width; ++column)
      if (const std::int16_t solid = out.solid[row * out.width + column]; solid >= 0)
        seen[static_cast<std::size_t>(solid)].add(row, column);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i].pixels != 0) order.push_back(i);
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(seen[i].left, i); });
  boost::json::array all;
  for (const std::size_t i : order) {
    const Shape shape = scene.solids[i].shape;
    all.push_back({{"class", static_cast<int>(shape)}, {"name", name_of(shape)}, {"x", seen[i].left},
                   {"y", seen[i].top}, {"width", seen[i].right - seen[i].left + 1},
                   {"height", seen[i].bottom - seen[i].top + 1}, {"pixels", seen[i].pixels}});
  }
  return all;
}

class Scenes final : public RowsGenerator {
 public:
  Scenes(const SceneSettings& settings, const GeneratorContext& context)
      : RowsGenerator(scene_schema(settings), rows_for(settings)),
        settings_(settings),
        context_(context),
        solid_(settings.width * settings.height) {}

 private:
  /// A few MiB a table.
  static std::uint64_t rows_for(const SceneSettings& settings) {
    constexpr std::uint64_t kTableBytes = 4 << 20, kPixelBytes = 7;
    return std::clamp<std::uint64_t>(kTableBytes / (kPixelBytes * settings.width * settings.height), 1, kRows);
  }

  void row(std::uint64_t sample, std::size_t row, Table& table) override {
    const Scene scene = draw_scene(Stream(context_.seed, kSceneStream, sample), settings_.solids);
    const std::size_t pixels = settings_.width * settings_.height;
    const RenderOut out{.height = settings_.height,
                        .width = settings_.width,
                        .image = table.column(kImage).values<std::uint8_t>().subspan(3 * pixels * row, 3 * pixels),
                        .depth = table.column(kDepth).values<float>().subspan(pixels * row, pixels),
                        .solid = solid_};
    render(scene, out);
    const boost::json::array boxes = boxes_of(scene, out);
    table.column(kBoxes).append(std::string_view(boost::json::serialize(boxes)));
    table.column(kSolids).values<std::int32_t>()[row] = static_cast<std::int32_t>(boxes.size());
  }

  SceneSettings settings_;
  GeneratorContext context_;
  std::vector<std::int16_t> solid_;
};

/// Pictures in rows, with a border around each: as many as there are, and as make a sheet of a moment's work.
class ContactSheet {
 public:
  ContactSheet(const SceneSettings& settings, std::uint64_t samples)
      : count_(std::min<std::uint64_t>(
            samples, std::clamp<std::uint64_t>(kPixels / (settings.width * settings.height), 1, kAcross * kDown))),
        across_(std::min(count_, kAcross)),
        width_(settings.width),
        height_(settings.height),
        sheet_(static_cast<int>(kBorder + across_ * (width_ + kBorder)),
               static_cast<int>(kBorder + (count_ + across_ - 1) / across_ * (height_ + kBorder)), {255, 255, 255}) {}

  [[nodiscard]] std::size_t count() const { return count_; }

  void place(std::size_t index, std::span<const std::uint8_t> image) {
    const std::size_t left = kBorder + index % across_ * (width_ + kBorder);
    const std::size_t top = kBorder + index / across_ * (height_ + kBorder);
    for (std::size_t row = 0; row < height_; ++row)
      std::copy_n(image.data() + 3 * row * width_, 3 * width_,
                  sheet_.rgb.data() + 3 * ((top + row) * static_cast<std::size_t>(sheet_.width) + left));
  }
  [[nodiscard]] troupe::Result<std::string> png() const { return rl::png_bytes(sheet_); }

 private:
  static constexpr std::size_t kAcross = 8, kDown = 5, kBorder = 2;
  static constexpr std::uint64_t kPixels = 2 << 20;

  std::size_t count_, across_, width_, height_;
  rl::Frame sheet_;
};

class SceneOptions final : public GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "width", .help = "Of the pictures", .value = &settings_.width, .least = 8, .most = 4096},
            {.name = "height", .help = "Of the pictures", .value = &settings_.height, .least = 8, .most = 4096},
            {.name = "solids", .help = "In a scene, at most; at least one", .value = &settings_.solids, .least = 1,
             .most = 64}};
  }
  troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    return std::unique_ptr<Generator>(std::make_unique<Scenes>(settings_, context));
  }
  troupe::Result<std::string> picture(const GeneratorContext& context) override {
    ContactSheet sheet(settings_, context.samples);
    const std::size_t size = 3 * settings_.width * settings_.height;
    std::size_t index = 0;
    Scenes(settings_, context).generate({0, sheet.count()}, [&](const Table& table) {
      for (std::size_t row = 0; row < table.rows(); ++row)
        sheet.place(index++, table.column(kImage).values<std::uint8_t>().subspan(row * size, size));
    });
    return sheet.png();
  }

 private:
  SceneSettings settings_;
};

}  // namespace

GeneratorKind scenes() {
  return {.name = "scenes",
          .help = "Rendered scenes: pictures with depth and the boxes of what is in them",
          .options = [] { return std::make_unique<SceneOptions>(); },
          .samples_per_shard = 500};
}

}  // namespace datagen

// A template: a generator of your own, under all verbs and formats of `datagen`.
//
//   own_generator run --generator spirals --samples 100000 --turns 2 --format jsonl --out spirals
//   own_generator verify spirals
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include <troupe/troupe.h>

#include "apps/datagen/generators/generator_registry.h"
#include "apps/datagen/generators/rows_generator.h"
#include "apps/datagen/program/program.h"
#include "apps/datagen/random/stream.h"

namespace {

struct SpiralSettings {
  std::uint64_t arms = 3;
  double turns = 1.5, noise = 0.02;
};

/// Points on spirals; a sample is one row. Whatever is random comes from the sample's own stream, so that the row is
/// the same whoever makes it, and when.
class Spirals final : public datagen::RowsGenerator {
 public:
  Spirals(const SpiralSettings& settings, std::uint64_t seed)
      : RowsGenerator({.fields = {{.name = "x", .type = datagen::Type::kFloat32, .shape = {2}},
                                  {.name = "arm",
                                   .type = datagen::Type::kInt32,
                                   .content = datagen::Content::kClass}}}),
        settings_(settings),
        seed_(seed) {}

 private:
  void row(std::uint64_t sample, std::size_t row, datagen::Table& table) override {
    datagen::Stream random(seed_, 0, sample);  // 0: which of the generator's purposes; ours has one
    const std::uint32_t arm = random.below(static_cast<std::uint32_t>(settings_.arms));
    const double radius = std::sqrt(random.uniform());
    const double start = static_cast<double>(arm) / static_cast<double>(settings_.arms);
    const double angle = 2 * std::numbers::pi * (start + settings_.turns * radius);
    const auto x = table.column(0).values<float>();
    x[2 * row] = static_cast<float>(radius * std::cos(angle) + settings_.noise * random.normal());
    x[2 * row + 1] = static_cast<float>(radius * std::sin(angle) + settings_.noise * random.normal());
    table.column(1).values<std::int32_t>()[row] = static_cast<std::int32_t>(arm);
  }

  SpiralSettings settings_;
  std::uint64_t seed_;
};

/// What flags set, with names, ranges and help; make() may refuse settings that do not fit each other.
class SpiralOptions final : public datagen::GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "arms", .help = "Classes", .value = &settings_.arms, .least = 1, .most = 100},
            {.name = "turns", .help = "Of an arm", .value = &settings_.turns, .least = 0, .most = 100},
            {.name = "noise", .help = "Deviation of a point from its arm", .value = &settings_.noise, .least = 0}};
  }
  troupe::Result<std::unique_ptr<datagen::Generator>> make(const datagen::GeneratorContext& context) override {
    return std::unique_ptr<datagen::Generator>(std::make_unique<Spirals>(settings_, context.seed));
  }

 private:
  SpiralSettings settings_;
};

}  // namespace

int main(int argc, char** argv) {
  datagen::register_builtins().value();
  datagen::register_generator({.name = "spirals",
                               .help = "Points on spirals, with the arm",
                               .options = [] { return std::make_unique<SpiralOptions>(); },
                               .samples_per_shard = 10'000})
      .value();  // here, so that worker processes have it too
  return troupe::run(argc, argv, &datagen::run_program);
}

#include "apps/datagen/generators/tabular.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "apps/datagen/random/stream.h"

namespace datagen {
namespace {

enum TabularStream : std::uint32_t { kTabularValues, kTabularKinds, kTabularCentres };

constexpr std::uint64_t kTableRows = 8192;  // with 64 columns 2 MiB: what comes after finds it in a cache
constexpr std::size_t kGroupRows = 64;      // filled together, in the first cache

float noise_of(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>((word & 0xffff) + (word >> 16)) - 65'535);
}
constexpr double kNoiseScale = 2.449489742783178 / 65'536;  // sqrt(6): the deviation of two halves' sum is 1

Schema tabular_schema(const TabularSettings& settings) {
  Schema schema;
  const int digits = settings.columns > 100 ? 4 : 2;
  for (std::uint64_t i = 0; i < settings.columns; ++i)
    schema.fields.push_back({.name = fmt::format("f{:0{}}", i, digits), .type = Type::kFloat32});
  schema.fields.push_back({.name = "label", .type = Type::kInt32, .content = Content::kClass});
  schema.fields.push_back({.name = "cluster", .type = Type::kInt32});
  return schema;
}

class Tabular final : public Generator {
 public:
  Tabular(const TabularSettings& settings, const GeneratorContext& context)
      : settings_(settings),
        isa_(context.isa),
        blocks_((settings.columns + 3) / 4),
        scale_(static_cast<float>(settings.noise * kNoiseScale)),
        values_(context.seed, kTabularValues, 0),
        kinds_(context.seed, kTabularKinds, 0),
        centres_(settings.clusters * width()),
        words_(kGroupRows * width()),
        table_(std::make_shared<const Schema>(tabular_schema(settings))) {
    for (std::uint64_t cluster = 0; cluster < settings.clusters; ++cluster)
      std::ranges::copy(centre_of(settings, context.seed, cluster),
                        centres_.begin() + static_cast<std::ptrdiff_t>(cluster * width()));
  }

  [[nodiscard]] const Schema& schema() const override { return table_.schema(); }

  void generate(SampleRange range, const TableSink& sink) override {
    for (std::uint64_t begin = range.begin; begin < range.end; begin += kTableRows) {
      const std::uint64_t rows = std::min(kTableRows, range.end - begin);
      table_.resize(rows);  // what the table before left is written over
      float_columns();
      for (std::uint64_t row = 0; row < rows; row += kGroupRows)
        fill(begin + row, row, std::min<std::size_t>(kGroupRows, rows - row));
      table_.rows_are_samples();
      sink(table_);
    }
  }

 private:
  [[nodiscard]] std::size_t width() const { return 4 * blocks_; }  // columns, and what is left of their blocks

  void float_columns() {
    columns_.clear();
    for (std::size_t i = 0; i < settings_.columns; ++i) columns_.push_back(table_.column(i).values<float>().data());
  }

  /// `count` rows from sample `first` on, at `row` of the table: TAB-1.
  void fill(std::uint64_t first, std::size_t row, std::size_t count) {
    std::array<std::uint32_t, 4 * kGroupRows> kinds;
    kinds_.seek(first), kinds_.fill(std::span(kinds).first(4 * count), isa_);
    const auto labels = table_.column(settings_.columns).values<std::int32_t>().subspan(row, count);
    const auto clusters = table_.column(settings_.columns + 1).values<std::int32_t>().subspan(row, count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto choose = [&](std::size_t word, std::uint64_t n) { return (kinds[4 * i + word] * n) >> 32; };
      const std::uint64_t cluster = choose(0, settings_.clusters);
      std::uint64_t label = cluster % settings_.classes;
      if (kinds[4 * i + 1] < settings_.label_noise * 0x1p32)
        label = (label + 1 + choose(2, settings_.classes - 1)) % settings_.classes;
      labels[i] = static_cast<std::int32_t>(label), clusters[i] = static_cast<std::int32_t>(cluster);
    }
    values_.seek(first * blocks_), values_.fill(std::span(words_).first(count * width()), isa_);
    for (std::size_t i = 0; i < count; ++i) place(i, centres_.data() + clusters[i] * width());
    transpose(row, count);
  }

  /// Row i of the group: words to numbers around a centre.
  void place(std::size_t i, const float* centre) {
    const std::uint32_t* words = words_.data() + i * width();
    float* out = group_.data() + i * width();
    for (std::size_t c = 0; c < width(); ++c) out[c] = centre[c] + scale_ * noise_of(words[c]);
  }

  void transpose(std::size_t row, std::size_t count) {
    for (std::size_t c = 0; c < settings_.columns; ++c) {
      const float* in = group_.data() + c;
      float* out = columns_[c] + row;
      for (std::size_t i = 0; i < count; ++i) out[i] = in[i * width()];
    }
  }

  TabularSettings settings_;
  troupe::kernels::Isa isa_;
  std::size_t blocks_;
  float scale_;
  Stream values_, kinds_;
  std::vector<float> centres_;  // [clusters][width()]
  std::vector<std::uint32_t> words_;  // [kGroupRows][width()]
  std::vector<float> group_ = std::vector<float>(words_.size());
  std::vector<float*> columns_;
  Table table_;
};

class TabularOptions final : public GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "columns", .help = "Float columns", .value = &settings_.columns, .least = 1, .most = 4096},
            {.name = "clusters", .help = "Centres that rows lie around", .value = &settings_.clusters, .least = 1,
             .most = 65'536},
            {.name = "classes", .help = "Labels; cluster k has label k modulo this", .value = &settings_.classes,
             .least = 1, .most = 65'536},
            {.name = "separation", .help = "Centres are within this of 0, in each column",
             .value = &settings_.separation, .least = 0, .most = 1e6},
            {.name = "noise", .help = "Deviation of a number from its centre", .value = &settings_.noise, .least = 0,
             .most = 1e6},
            {.name = "label_noise", .help = "Share of rows whose label is another one",
             .value = &settings_.label_noise, .least = 0, .most = 1}};
  }

  troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    if (settings_.label_noise > 0 && settings_.classes == 1)
      return troupe::InvalidArgumentError("label_noise needs a second class: raise --classes");
    return std::unique_ptr<Generator>(std::make_unique<Tabular>(settings_, context));
  }

  /// How often the nearest centre is the row's own.
  troupe::Result<std::string> check_line(const GeneratorContext& context) override {
    const std::uint64_t rows = std::min<std::uint64_t>(1000, context.samples);
    auto made = make(context);
    if (!made.ok()) return made.error_ptr();
    std::vector<std::vector<float>> centres;
    const std::uint64_t compared = std::min<std::uint64_t>(settings_.clusters, 256);
    for (std::uint64_t k = 0; k < compared; ++k) centres.push_back(centre_of(settings_, context.seed, k));
    std::uint64_t right = 0;
    (*made)->generate({0, rows}, [&](const Table& table) {
      for (std::size_t row = 0; row < table.rows(); ++row) {
        const auto distance = [&](const std::vector<float>& centre) {
          double sum = 0;
          for (std::size_t c = 0; c < centre.size(); ++c) {
            const double off = double{table.column(c).values<float>()[row]} - double{centre[c]};
            sum += off * off;
          }
          return sum;
        };
        const auto nearest = std::ranges::min_element(centres, {}, distance) - centres.begin();
        right += table.column(settings_.columns + 1).values<std::int32_t>()[row] == nearest ? 1 : 0;
      }
    });
    return fmt::format("first {} rows: the nearest of {} centres is the row's own in {:.1f} %", rows, compared,
                       100.0 * static_cast<double>(right) / static_cast<double>(rows));
  }

 private:
  TabularSettings settings_;
};

}  // namespace

std::vector<float> centre_of(const TabularSettings& settings, std::uint64_t seed, std::uint64_t cluster) {
  Stream stream(seed, kTabularCentres, cluster);
  std::vector<float> out(settings.columns);
  for (float& one : out) one = static_cast<float>(settings.separation * (2 * stream.uniform() - 1));
  return out;
}

GeneratorKind tabular() {
  return {.name = "tabular",
          .help = "Rows of floats around known centres, with cluster and label",
          .options = [] { return std::make_unique<TabularOptions>(); },
          .samples_per_shard = 1'000'000};
}

}  // namespace datagen

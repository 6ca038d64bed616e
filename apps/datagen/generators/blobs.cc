#include "apps/datagen/generators/blobs.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "apps/datagen/random/stream.h"

namespace datagen {
namespace {

enum BlobStream : std::uint32_t { kBlobBytes, kBlobClass };

constexpr std::uint64_t kBlobTableBytes = 256 << 10;  // what comes after finds it in the second cache

struct BlobSettings {
  std::uint64_t bytes = 65'536, classes = 1000;
};

class Blobs final : public Generator {
 public:
  Blobs(const BlobSettings& settings, const GeneratorContext& context)
      : settings_(settings),
        context_(context),
        words_((settings.bytes + 3) / 4),
        table_(std::make_shared<const Schema>(
            Schema{.fields = {{.name = "data", .type = Type::kBytes},
                              {.name = "class", .type = Type::kInt32, .content = Content::kClass}}})) {}

  [[nodiscard]] const Schema& schema() const override { return table_.schema(); }

  void generate(SampleRange range, const TableSink& sink) override {
    const std::uint64_t together = std::max<std::uint64_t>(1, kBlobTableBytes / settings_.bytes);
    for (std::uint64_t begin = range.begin; begin < range.end; begin += together) {
      const std::uint64_t rows = std::min(together, range.end - begin);
      table_.clear();
      table_.resize(rows);
      for (std::uint64_t i = 0; i < rows; ++i) {
        fill(Stream(context_.seed, kBlobBytes, begin + i), table_.column(0).append(settings_.bytes));
        table_.column(1).values<std::int32_t>()[i] = static_cast<std::int32_t>(
            Stream(context_.seed, kBlobClass, begin + i).below(static_cast<std::uint32_t>(settings_.classes)));
      }
      table_.rows_are_samples();
      sink(table_);
    }
  }

 private:
  /// BLB-1. Whole words go where they belong; the bytes of a last one that is cut, by a copy.
  void fill(Stream stream, std::span<std::byte> bytes) {
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(std::uint32_t) == 0 && bytes.size() % 4 == 0)
      return stream.fill({reinterpret_cast<std::uint32_t*>(bytes.data()), bytes.size() / 4}, context_.isa);
    stream.fill(words_, context_.isa);
    std::memcpy(bytes.data(), words_.data(), bytes.size());
  }

  BlobSettings settings_;
  GeneratorContext context_;
  std::vector<std::uint32_t> words_;
  Table table_;
};

class BlobOptions final : public GeneratorOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "bytes", .help = "Of a sample", .value = &settings_.bytes, .least = 1, .most = 1 << 30},
            {.name = "classes", .help = "Classes that samples are of", .value = &settings_.classes, .least = 1,
             .most = 1 << 30}};
  }
  troupe::Result<std::unique_ptr<Generator>> make(const GeneratorContext& context) override {
    return std::unique_ptr<Generator>(std::make_unique<Blobs>(settings_, context));
  }

 private:
  BlobSettings settings_;
};

}  // namespace

GeneratorKind blobs() {
  return {.name = "blobs",
          .help = "Samples of random bytes with a class",
          .options = [] { return std::make_unique<BlobOptions>(); },
          .samples_per_shard = 1000};
}

}  // namespace datagen

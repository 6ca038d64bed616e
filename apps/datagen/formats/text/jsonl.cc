#include "apps/datagen/formats/text/jsonl.h"

#include <utility>

#include "apps/datagen/formats/shard_path.h"
#include "apps/datagen/formats/text/json_text.h"
#include "apps/datagen/formats/text/zstd_sink.h"

namespace datagen {
namespace {

constexpr std::size_t kLinesBuffer = 256 << 10;

class JsonlWriter final : public ShardWriter {
 public:
  JsonlWriter(const Schema& schema, ByteSink& sink, std::unique_ptr<ZstdSink> packed)
      : packed_(std::move(packed)), sink_(packed_ ? *packed_ : sink) {
    for (const Field& field : schema.fields) {
      std::string& key = keys_.emplace_back(keys_.empty() ? "{" : ",");
      append_json_text(key, field.name);
      key += ':';
    }
  }

  void append(const Table& table) override {
    for (std::size_t row = 0; row < table.rows(); ++row) {
      for (std::size_t i = 0; i < keys_.size(); ++i) {
        lines_ += keys_[i];
        append_json(lines_, table.column(i), row);
      }
      lines_ += "}\n";
      if (lines_.size() >= kLinesBuffer) flush();
    }
  }

  void finish() override {
    flush();
    if (packed_) packed_->finish();
  }

 private:
  void flush() {
    sink_.write(std::as_bytes(std::span(lines_)));
    lines_.clear();
  }

  std::unique_ptr<ZstdSink> packed_;
  ByteSink& sink_;
  std::vector<std::string> keys_;  // what stands before each value
  std::string lines_;
};

class JsonlOptions final : public FormatOptions {
 public:
  std::vector<apps::Setting> settings() override {
    return {{.name = "compression", .help = "Of the lines", .value = &compression_, .choices = {"none", "zstd"}},
            {.name = "compression_level", .help = "Of zstd", .value = &level_, .least = 1, .most = 22}};
  }

  troupe::Result<std::map<std::string, std::string>> libraries() override {
    std::map<std::string, std::string> out;
    if (!packs()) return out;  // JSL-1
    const auto version = ZstdSink::library_version();
    if (!version.ok()) return version.error_ptr();
    out["zstd"] = *version;
    return out;
  }

  std::string shard_name(const ShardInfo& shard) const override {
    return shard_path(shard, "part", packs() ? "jsonl.zst" : "jsonl");
  }

  troupe::Status check(const Schema& schema) const override { return check_schema(schema); }

  troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema> schema, const ShardInfo&,
                                                    ByteSink& sink) override {
    std::unique_ptr<ZstdSink> packed;
    if (packs()) {
      auto opened = ZstdSink::open(sink, static_cast<int>(level_));
      if (!opened.ok()) return opened.error_ptr();
      packed = std::move(*opened);
    }
    return std::unique_ptr<ShardWriter>(std::make_unique<JsonlWriter>(*schema, sink, std::move(packed)));
  }

 private:
  [[nodiscard]] bool packs() const { return compression_ == "zstd"; }

  std::string compression_ = "none";
  std::int64_t level_ = 3;
};

}  // namespace

FormatKind jsonl_format() {
  return {.name = "jsonl",
          .help = "a JSON object a row and line, with or without zstd",
          .options = [] { return std::make_unique<JsonlOptions>(); }};
}

}  // namespace datagen

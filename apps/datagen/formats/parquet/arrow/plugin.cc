// libdatagen_parquet.so: see parquet_plugin.h.
#include <exception>
#include <utility>

#include <arrow/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/io/file.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/config.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include "apps/datagen/formats/parquet/arrow/columns.h"
#include "apps/datagen/formats/parquet/parquet_plugin.h"

namespace datagen {
namespace {

/// What a sink throws passes Arrow, which knows no exceptions, in `thrown`.
class SinkStream final : public arrow::io::OutputStream {
 public:
  explicit SinkStream(ByteSink& sink) : sink_(sink) {}

  arrow::Status Write(const void* data, std::int64_t bytes) override {
    try {
      sink_.write({static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)});
      at_ += bytes;
      return arrow::Status::OK();
    } catch (...) {
      thrown = std::current_exception();
      return arrow::Status::IOError("the sink took no more");
    }
  }
  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  arrow::Result<std::int64_t> Tell() const override { return at_; }
  [[nodiscard]] bool closed() const override { return closed_; }

  std::exception_ptr thrown;

 private:
  ByteSink& sink_;
  std::int64_t at_ = 0;
  bool closed_ = false;
};

std::shared_ptr<parquet::WriterProperties> writer_properties(const ParquetProperties& p) {
  parquet::WriterProperties::Builder builder;
  builder.created_by("troupe-datagen version 1")->version(parquet::ParquetVersion::PARQUET_2_6);
  builder.max_row_group_length(p.row_group_rows)->data_pagesize(p.page_bytes);
  const int level = static_cast<int>(p.level);
  if (p.compression == "zstd") builder.compression(arrow::Compression::ZSTD)->compression_level(level);
  else if (p.compression == "snappy") builder.compression(arrow::Compression::SNAPPY);
  else if (p.compression == "lz4") builder.compression(arrow::Compression::LZ4);
  else builder.compression(arrow::Compression::UNCOMPRESSED);
  p.dictionary ? builder.enable_dictionary() : builder.disable_dictionary();
  p.statistics ? builder.enable_statistics() : builder.disable_statistics();
  return builder.build();
}

class ArrowWriter final : public ShardWriter {
 public:
  ArrowWriter(const Schema& schema, const ParquetProperties& properties, ByteSink& sink)
      : stream_(std::make_shared<SinkStream>(sink)), schema_(arrow_schema(schema)) {
    run([&] {
      auto opened = parquet::arrow::FileWriter::Open(
          *schema_, arrow::default_memory_pool(), stream_, writer_properties(properties),
          parquet::ArrowWriterProperties::Builder().store_schema()->build());
      if (opened.ok()) writer_ = std::move(opened).ValueUnsafe();
      return opened.status();
    });
  }

  void append(const Table& table) override {
    run([&] { return writer_->WriteRecordBatch(*to_arrow(table, schema_)); });
  }

  void finish() override {
    run([&] { return writer_->Close(); });
  }

 private:
  /// Parquet throws some of its errors and returns the others; those of the sink are thrown as they were.
  template <class Work> void run(const Work& work) const {
    arrow::Status status;
    try {
      status = work();
    } catch (const parquet::ParquetException& error) { status = arrow::Status::IOError(error.what()); }
    if (status.ok()) return;
    if (stream_->thrown) std::rethrow_exception(stream_->thrown);
    troupe::RuntimeEnvError("Parquet: " + status.ToString()).raise();
  }

  std::shared_ptr<SinkStream> stream_;
  std::shared_ptr<arrow::Schema> schema_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

class ArrowReader final : public ParquetReader {
 public:
  explicit ArrowReader(const std::filesystem::path& path) : path_(path) {
    auto file = arrow::io::ReadableFile::Open(path.string());
    if (!file.ok()) troupe::NotFoundError("cannot read " + path.string() + ": " + file.status().ToString()).raise();
    auto opened = parquet::arrow::OpenFile(*file, arrow::default_memory_pool());
    check(opened.status());
    reader_ = std::move(opened).ValueUnsafe();
    std::shared_ptr<arrow::Schema> found;
    check(reader_->GetSchema(&found));
    schema_ = std::make_shared<const Schema>(from_arrow(*found));
    auto batches = reader_->GetRecordBatchReader();
    check(batches.status());
    batches_ = std::move(batches).ValueUnsafe();
  }

  [[nodiscard]] const std::shared_ptr<const Schema>& schema() const override { return schema_; }

  bool next(Table& table) override {
    std::shared_ptr<arrow::RecordBatch> batch;
    check(batches_->ReadNext(&batch));
    if (!batch) return false;
    from_arrow(*batch, table);
    return true;
  }

 private:
  void check(const arrow::Status& status) const {
    if (!status.ok()) troupe::SerializationError(path_.string() + ": " + status.ToString()).raise();
  }

  std::filesystem::path path_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::shared_ptr<const Schema> schema_;
  std::shared_ptr<arrow::RecordBatchReader> batches_;
};

class ArrowPlugin final : public ParquetPlugin {
 public:
  ArrowPlugin() {
    if (const arrow::Status status = arrow::compute::Initialize(); !status.ok())
      troupe::RuntimeEnvError("Arrow: " + status.ToString()).raise();
  }
  [[nodiscard]] std::string library_version() const override { return ARROW_VERSION_STRING; }
  [[nodiscard]] std::unique_ptr<ShardWriter> open_writer(const std::shared_ptr<const Schema>& schema,
                                                         const ParquetProperties& properties,
                                                         ByteSink& sink) const override {
    return std::make_unique<ArrowWriter>(*schema, properties, sink);
  }
  [[nodiscard]] std::unique_ptr<ParquetReader> open_reader(const std::filesystem::path& path) const override {
    try {
      return std::make_unique<ArrowReader>(path);
    } catch (const parquet::ParquetException& error) {
      troupe::SerializationError(path.string() + ": " + error.what()).raise();
    }
  }
};

}  // namespace
}  // namespace datagen

extern "C" __attribute__((visibility("default"))) void* datagen_parquet_plugin(int version) {
  if (version != datagen::kParquetPluginVersion) return nullptr;
  static const datagen::ArrowPlugin plugin;
  return const_cast<datagen::ParquetPlugin*>(static_cast<const datagen::ParquetPlugin*>(&plugin));
}

// What libdatagen_parquet.so does for the format `parquet`: everything that needs Arrow C++.
//
// One thread an object, any; errors are thrown: typed ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <troupe/result.h>

#include "apps/datagen/formats/format.h"

namespace datagen {

/// Writer properties: they decide bytes.
struct ParquetProperties {
  std::string compression = "zstd";        ///< or "none", "snappy", "lz4"
  std::int64_t level = 1;                  ///< of zstd
  std::int64_t row_group_rows = 128 << 10;
  std::int64_t page_bytes = 1 << 20;
  bool dictionary = false, statistics = true;
};

/// Reads a file, row group after row group.
class ParquetReader {
 public:
  virtual ~ParquetReader() = default;
  /// What the file has: as it was written by this format, or what Arrow makes of another's columns. Its metadata is
  /// the file's.
  [[nodiscard]] virtual const std::shared_ptr<const Schema>& schema() const = 0;
  /// The next rows, each a sample; false: there are no more.
  virtual bool next(Table& table) = 0;
};

class ParquetPlugin {
 public:
  virtual ~ParquetPlugin() = default;
  /// Of Arrow.
  [[nodiscard]] virtual std::string library_version() const = 0;
  [[nodiscard]] virtual std::unique_ptr<ShardWriter> open_writer(const std::shared_ptr<const Schema>& schema,
                                                                 const ParquetProperties& properties,
                                                                 ByteSink& sink) const = 0;
  /// NotFoundError; SerializationError for what is no Parquet file, or has a column of a type that tables have not.
  [[nodiscard]] virtual std::unique_ptr<ParquetReader> open_reader(const std::filesystem::path& path) const = 0;
};

inline constexpr int kParquetPluginVersion = 1;
inline constexpr const char* kParquetPluginFunction = "datagen_parquet_plugin";

/// RuntimeEnvError where it cannot be opened (PLG-2); opened once a process.
[[nodiscard]] troupe::Result<const ParquetPlugin*> parquet_plugin();

}  // namespace datagen

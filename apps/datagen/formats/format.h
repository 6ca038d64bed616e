// Format: how samples become the bytes of a shard, and what a finished data set has beside its shards.
//
//   FormatKind (registered in main) ──options()──▶ FormatOptions: what flags set ──open()──▶ ShardWriter
//                                                           append(table)... finish() ─▶ bytes into a ByteSink
//
// A ShardWriter is made for one shard, by one thread.
//
// FMT-1  The bytes are a function of settings, library versions, schema, shard and tables alone: no time, no user, no
//        number of a process in them.
// FMT-2  Files beside the shards are made by finish_dataset, which may be run again and gives the same bytes; a reader
//        that needs them finds none before all shards are there.
// FMT-3  A format whose library is missing is known and says which package it needs (RuntimeEnvError from options'
//        libraries()); nothing else is lost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/common/settings/setting.h"
#include "apps/datagen/files/byte_sink.h"
#include "apps/datagen/generators/generator.h"
#include "apps/datagen/table/table.h"

namespace datagen {

/// The shard that is written.
struct ShardInfo {
  std::uint64_t index = 0, count = 0;  ///< of so many
  SampleRange range = {};
};

class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  /// Tables of one schema, with whole samples, in order. Throws what the sink or the library says.
  virtual void append(const Table& table) = 0;
  /// Everything is with the sink when it returns. Once.
  virtual void finish() = 0;
};

/// A shard of a finished data set.
struct FinishedShard {
  std::string name;  ///< its file, below the folder of the data set
  SampleRange range = {};
  std::uint64_t rows = 0, bytes = 0;
};

/// What finish_dataset knows.
struct FinishedDataset {
  std::filesystem::path folder;
  std::string name;                     ///< of the data set: the last part of its folder, or --name
  std::shared_ptr<const Schema> schema;
  std::vector<FinishedShard> shards;    ///< in order, all of them
};

class FormatOptions {
 public:
  virtual ~FormatOptions() = default;
  /// They point into this object.
  [[nodiscard]] virtual std::vector<apps::Setting> settings() = 0;
  /// Names and versions of what decides bytes: {"arrow": "26.0.1", "zstd": "1.5.4"}. FMT-3.
  [[nodiscard]] virtual troupe::Result<std::map<std::string, std::string>> libraries() {
    return std::map<std::string, std::string>();
  }
  /// "data/part-00007-of-00100.parquet": below the folder of the data set, the same length for all.
  [[nodiscard]] virtual std::string shard_name(const ShardInfo& shard) const = 0;
  /// InvalidArgumentError when the format has no place for such a column.
  [[nodiscard]] virtual troupe::Status check(const Schema& schema) const = 0;
  /// The sink outlives the writer.
  [[nodiscard]] virtual troupe::Result<std::unique_ptr<ShardWriter>> open(std::shared_ptr<const Schema> schema,
                                                                          const ShardInfo& shard, ByteSink& sink) = 0;
  /// FMT-2. Names of the files that it made, below the folder. Default: none.
  [[nodiscard]] virtual troupe::Result<std::vector<std::string>> finish_dataset(const FinishedDataset&) {
    return std::vector<std::string>();
  }
};

struct FormatKind {
  std::string name;  ///< "parquet"
  std::string help;  ///< a line
  int version = 1;   ///< goes up when its bytes change
  std::function<std::unique_ptr<FormatOptions>()> options;
};

}  // namespace datagen

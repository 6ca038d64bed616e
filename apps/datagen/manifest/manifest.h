// Manifest: the shards of a data set that are done, each once.
//
// Plain value; one thread at a time.
//
// MNF-1  A shard that comes again with the same bytes changes nothing; with others it is a NondeterministicError.
// MNF-2  digest() is of names, rows, bytes, SHA-256 and ranges, in the order of names: of neither attempts nor epochs
//        nor the order in which shards were done.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/manifest/shard_record.h"

namespace datagen {

class Manifest {
 public:
  /// True: it is new. MNF-1.
  troupe::Result<bool> add(ShardRecord record);

  [[nodiscard]] const ShardRecord* find(std::uint64_t first_sample) const;
  [[nodiscard]] std::size_t size() const { return records_.size(); }
  /// In the order in which they came.
  [[nodiscard]] std::span<const ShardRecord> records() const { return records_; }
  /// By their ranges.
  [[nodiscard]] std::vector<ShardRecord> in_order() const;
  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] Digest digest() const;

 private:
  std::vector<ShardRecord> records_;
  std::unordered_map<std::uint64_t, std::size_t> by_begin_;
  std::uint64_t rows_ = 0, bytes_ = 0;
};

}  // namespace datagen

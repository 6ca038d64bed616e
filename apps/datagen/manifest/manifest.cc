#include "apps/datagen/manifest/manifest.h"

#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <utility>

#include "apps/datagen/files/nondeterministic_error.h"

namespace datagen {

troupe::Result<bool> Manifest::add(ShardRecord record) {
  const auto [at, is_new] = by_begin_.try_emplace(record.range.begin, records_.size());
  if (!is_new) {
    const ShardRecord& before = records_[at->second];
    if (same_shard(before, record)) return false;
    if (before.name == record.name && before.range == record.range)
      return NondeterministicError(record.name, before.sha256, record.sha256);
    return troupe::SerializationError("the manifest has two shards from sample " + std::to_string(record.range.begin) +
                                      " on: " + before.name + " and " + record.name);
  }
  rows_ += record.rows;
  bytes_ += record.bytes;
  records_.push_back(std::move(record));
  return true;
}

const ShardRecord* Manifest::find(std::uint64_t first_sample) const {
  const auto at = by_begin_.find(first_sample);
  return at == by_begin_.end() ? nullptr : &records_[at->second];
}

std::vector<ShardRecord> Manifest::in_order() const {
  std::vector<ShardRecord> out(records_);
  std::ranges::sort(out, {}, [](const ShardRecord& record) { return record.range.begin; });
  return out;
}

Digest Manifest::digest() const {
  std::vector<const ShardRecord*> sorted;
  for (const ShardRecord& record : records_) sorted.push_back(&record);
  std::ranges::sort(sorted, {}, [](const ShardRecord* record) -> const std::string& { return record->name; });
  Sha256 hash;
  for (const ShardRecord* record : sorted) {
    const std::array<std::uint64_t, 5> numbers{record->name.size(), record->rows, record->bytes, record->range.begin,
                                               record->range.end};
    hash.update(std::as_bytes(std::span(numbers)));
    hash.update(record->sha256);
    hash.update(record->name);
  }
  return hash.finish();
}

}  // namespace datagen

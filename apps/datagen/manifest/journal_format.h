// The bytes of a journal: a head and records, each with its checksum. Numbers are little-endian. docs/datagen.md has an
// example in hexadecimal.
//
//   head     "TRPMANIF" | u32 version | u32 size of the head (80) | u64 epoch | u64 run | 32 bytes job | u64 shards
//            | u64 XXH64 of the 72 bytes before
//   record   u32 size of what follows the checksum | u32 kind (1: a shard) | u64 XXH64, seeded with the epoch, of
//            size, kind and what follows | u64 begin | u64 end | u64 rows | u64 bytes | 32 bytes SHA-256 | u32 attempt
//            | u32 length of the name | name | zeros up to a multiple of 8
//
// Pure functions; any thread.
//
// JRF-1  Reading stops at the first record that is cut off, whose checksum is wrong, or which makes no sense: what
//        stands before it is good, what it and all behind it are is in the damage. Memory is bounded by the bytes.
// JRF-2  Magic, version, size and a checksum at the end of the head stay as they are in later versions, so that a newer
//        one is known from a damaged one: NewerJournal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <troupe/result.h>

#include "apps/datagen/manifest/shard_record.h"

namespace datagen {

inline constexpr std::uint32_t kJournalVersion = 1;
inline constexpr std::size_t kJournalHead = 80;
/// No run comes that far: a greater number in the name of a file is none of ours, and there is one after the greatest.
inline constexpr std::uint64_t kEpochMax = std::uint64_t{1} << 62;

/// A record has no more bytes.
inline constexpr std::size_t kRecordMax = 4184;

struct JournalHead {
  std::uint64_t epoch = 0;
  std::uint64_t run = 0;  ///< a number of the run that writes it: lives of its coordinator know each other by it
  Digest job{};           ///< hash of the configuration
  std::uint64_t shards = 0;  ///< of the plan
  friend bool operator==(const JournalHead&, const JournalHead&) = default;
};

/// Bytes that are no records.
struct JournalDamage {
  std::uint64_t offset = 0, bytes = 0;
  std::string what;
};

struct JournalContents {
  std::optional<JournalHead> head;  ///< none: it is damaged, and with it everything
  std::vector<ShardRecord> records;
  std::uint64_t good_bytes = 0;     ///< head and records
  std::optional<JournalDamage> damage;
};

void append_head(std::vector<std::byte>& out, const JournalHead& head);
void append_record(std::vector<std::byte>& out, const ShardRecord& record, std::uint64_t epoch);

/// InvalidArgumentError for a newer version's; everything else is in the contents.
[[nodiscard]] troupe::Result<JournalContents> parse_journal(std::span<const std::byte> bytes);
/// More records of the same journal: `bytes` begin at its byte `offset`.
void parse_records(std::span<const std::byte> bytes, std::uint64_t epoch, std::uint64_t offset, JournalContents& out);

}  // namespace datagen

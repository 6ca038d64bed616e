#include "apps/datagen/manifest/journal_format.h"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include <xxhash.h>

namespace datagen {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::string_view kMagic = "TRPMANIF";
constexpr std::uint32_t kShard = 1;
constexpr std::size_t kFrame = 16;  // size, kind, checksum
constexpr std::size_t kFixed = 72;  // of a shard's record, up to its name
constexpr std::size_t kNameMax = 4096;
constexpr std::size_t kOldestHead = 24;  // JRF-2: magic, version, size, checksum

template <class T> void append_number(std::vector<std::byte>& out, T value) {
  const auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <class T> T number_at(std::span<const std::byte> bytes, std::size_t at) {
  T out{};
  std::memcpy(&out, bytes.data() + at, sizeof(T));
  return out;
}

Digest digest_at(std::span<const std::byte> bytes, std::size_t at) {
  Digest out{};
  std::memcpy(out.data(), bytes.data() + at, out.size());
  return out;
}

constexpr std::size_t padded(std::size_t size) { return (size + 7) / 8 * 8; }
static_assert(kRecordMax == kFrame + kFixed + padded(kNameMax));

std::uint64_t checksum_of(std::span<const std::byte> record, std::uint64_t epoch) {
  // Size and kind, then everything behind the checksum: as one piece, with the checksum's place taken out.
  const std::uint64_t front = XXH64(record.data(), 8, epoch);
  return XXH64(record.data() + kFrame, record.size() - kFrame, front);
}

/// The record at the front of `bytes`, or why there is none.
struct Parsed {
  std::size_t size = 0;
  ShardRecord record;
  const char* wrong = nullptr;
};
Parsed no_record(const char* why) { return {.size = 0, .record = {}, .wrong = why}; }

Parsed parse_record(std::span<const std::byte> bytes, std::uint64_t epoch) {
  if (bytes.size() < kFrame) return no_record("a record that is cut off");
  const std::size_t body = number_at<std::uint32_t>(bytes, 0);
  if (body < kFixed || body > kFixed + padded(kNameMax) || body % 8 != 0) return no_record("a size that cannot be");
  if (bytes.size() - kFrame < body) return no_record("a record that is cut off");
  const std::span<const std::byte> all = bytes.first(kFrame + body);
  if (number_at<std::uint64_t>(all, 8) != checksum_of(all, epoch)) return no_record("a wrong checksum");
  if (number_at<std::uint32_t>(all, 4) != kShard) return no_record("a record of an unknown kind");
  const std::span<const std::byte> in = all.subspan(kFrame);
  const std::size_t name = number_at<std::uint32_t>(in, 68);
  if (name == 0 || name > kNameMax || padded(kFixed + name) != body) return no_record("a name that cannot be");
  Parsed out{.size = all.size(), .record = {}};
  out.record.range = {number_at<std::uint64_t>(in, 0), number_at<std::uint64_t>(in, 8)};
  if (out.record.range.begin >= out.record.range.end) return no_record("a range that cannot be");
  out.record.rows = number_at<std::uint64_t>(in, 16);
  out.record.bytes = number_at<std::uint64_t>(in, 24);
  out.record.sha256 = digest_at(in, 32);
  out.record.attempt = number_at<std::uint32_t>(in, 64);
  out.record.name.assign(reinterpret_cast<const char*>(in.data()) + kFixed, name);
  return out;
}

JournalContents damaged(std::size_t bytes, const char* what) {
  return {.head = {}, .records = {}, .good_bytes = 0, .damage = JournalDamage{0, bytes, what}};
}

}  // namespace

void append_head(std::vector<std::byte>& out, const JournalHead& head) {
  const std::size_t begin = out.size();
  const auto magic = std::as_bytes(std::span(kMagic));
  out.insert(out.end(), magic.begin(), magic.end());
  append_number(out, kJournalVersion);
  append_number(out, static_cast<std::uint32_t>(kJournalHead));
  append_number(out, head.epoch);
  append_number(out, head.run);
  out.insert(out.end(), head.job.begin(), head.job.end());
  append_number(out, head.shards);
  append_number(out, XXH64(out.data() + begin, out.size() - begin, 0));
}

void append_record(std::vector<std::byte>& out, const ShardRecord& record, std::uint64_t epoch) {
  const std::size_t begin = out.size(), body = padded(kFixed + record.name.size());
  append_number(out, static_cast<std::uint32_t>(body));
  append_number(out, kShard);
  append_number(out, std::uint64_t{0});
  append_number(out, record.range.begin);
  append_number(out, record.range.end);
  append_number(out, record.rows);
  append_number(out, record.bytes);
  out.insert(out.end(), record.sha256.begin(), record.sha256.end());
  append_number(out, record.attempt);
  append_number(out, static_cast<std::uint32_t>(record.name.size()));
  const auto name = std::as_bytes(std::span(record.name));
  out.insert(out.end(), name.begin(), name.end());
  out.resize(begin + kFrame + body);
  const std::uint64_t checksum = checksum_of(std::span(out).subspan(begin), epoch);
  std::memcpy(out.data() + begin + 8, &checksum, sizeof checksum);
}

troupe::Result<JournalContents> parse_journal(std::span<const std::byte> bytes) {
  if (bytes.size() < kOldestHead) return damaged(bytes.size(), "a head that is cut off");
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return damaged(bytes.size(), "no head of a journal");
  const auto version = number_at<std::uint32_t>(bytes, 8);
  const std::size_t size = number_at<std::uint32_t>(bytes, 12);
  if (size < kOldestHead || size > bytes.size()) return damaged(bytes.size(), "a head that is cut off");
  if (number_at<std::uint64_t>(bytes, size - 8) != XXH64(bytes.data(), size - 8, 0))
    return damaged(bytes.size(), "a head with a wrong checksum");
  if (version > kJournalVersion)
    return troupe::InvalidArgumentError("the manifest is of a newer version, " + std::to_string(version) +
                                        "; this program knows version " + std::to_string(kJournalVersion) +
                                        ": use the program that made the data set, or a newer one");
  if (version != kJournalVersion || size != kJournalHead) return damaged(bytes.size(), "a head that makes no sense");
  JournalContents out;
  out.head = JournalHead{.epoch = number_at<std::uint64_t>(bytes, 16),
                         .run = number_at<std::uint64_t>(bytes, 24),
                         .job = digest_at(bytes, 32),
                         .shards = number_at<std::uint64_t>(bytes, 64)};
  out.good_bytes = kJournalHead;
  parse_records(bytes.subspan(kJournalHead), out.head->epoch, kJournalHead, out);
  return out;
}

void parse_records(std::span<const std::byte> bytes, std::uint64_t epoch, std::uint64_t offset, JournalContents& out) {
  out.records.reserve(out.records.size() + bytes.size() / (kFrame + kFixed + 24));
  while (!bytes.empty()) {
    Parsed next = parse_record(bytes, epoch);
    if (next.wrong != nullptr) {
      out.damage = JournalDamage{offset, bytes.size(), next.wrong};
      return;
    }
    out.records.push_back(std::move(next.record));
    offset += next.size;
    out.good_bytes = offset;
    bytes = bytes.subspan(next.size);
  }
}

}  // namespace datagen

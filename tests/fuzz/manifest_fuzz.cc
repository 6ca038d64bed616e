// JRF-1, JRF-2: whatever is in a journal, reading it gives its good prefix and the damage, or a newer version's error,
// within memory that its size bounds. The files are valid ones with a few edits; often the checksums are made right
// again, so that the edits are seen by more than these.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <xxhash.h>

#include "apps/datagen/manifest/journal_format.h"
#include "core/base/check.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/memory_watch.h"

namespace {

using namespace troupe;
using fuzz::Input;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kEpoch = 7;

Bytes valid_journal(Input& input) {
  Bytes out;
  datagen::append_head(out, {.epoch = kEpoch, .run = 1, .job = {}, .shards = 100});
  for (unsigned n = input.byte() % 8; n > 0; --n) {
    datagen::ShardRecord record{.name = std::string(1 + input.byte() % 40, 'a'), .range = {n, n + 1}, .rows = n};
    record.sha256[0] = std::byte(n);
    datagen::append_record(out, record, kEpoch);
  }
  return out;
}

/// Checksums as they have to be for what stands there.
void repair(Bytes& bytes) {
  if (bytes.size() >= datagen::kJournalHead) {
    const std::uint64_t checksum = XXH64(bytes.data(), datagen::kJournalHead - 8, 0);
    std::memcpy(bytes.data() + datagen::kJournalHead - 8, &checksum, 8);
  }
  for (std::size_t at = datagen::kJournalHead; at + 16 <= bytes.size();) {
    std::uint32_t body = 0;
    std::memcpy(&body, bytes.data() + at, 4);
    if (body > bytes.size() - at - 16) return;
    const std::uint64_t front = XXH64(bytes.data() + at, 8, kEpoch);
    const std::uint64_t checksum = XXH64(bytes.data() + at + 16, body, front);
    std::memcpy(bytes.data() + at + 8, &checksum, 8);
    at += 16 + body;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const bool raw = input.byte() % 4 == 0, repaired = input.byte() % 2 == 0;
  Bytes bytes = raw ? input.rest() : valid_journal(input);
  const bool untouched = !raw && fuzz::edit_all(bytes, input);
  if (!raw && repaired) repair(bytes);
  const fuzz::Exact exact(bytes);
  const fuzz::MemoryWatch memory;
  const auto contents = datagen::parse_journal(exact.view());
  memory.require(8 * bytes.size() + (64 << 10), "a journal");
  if (!contents.ok()) {
    TROUPE_CHECK(contents.error().code() == ErrorCode::kInvalidArgument, "JRF-2: a newer version");
    return 0;
  }
  TROUPE_CHECK(!untouched || !contents->damage, "what was written is read");
  TROUPE_CHECK(contents->good_bytes + (contents->damage ? contents->damage->bytes : 0) == bytes.size(),
               "JRF-1: every byte is good or damaged");
  if (!contents->head) return 0;
  Bytes again;
  datagen::append_head(again, *contents->head);
  for (const datagen::ShardRecord& record : contents->records)
    datagen::append_record(again, record, contents->head->epoch);
  TROUPE_CHECK(again.size() == contents->good_bytes, "the good prefix is what writing its records anew gives");
  return 0;
}

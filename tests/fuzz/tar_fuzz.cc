// TAR-3: whatever an archive holds, read_tar gives members inside of it, or a typed error. The archives are a valid one
// with a few edits, whose first checksum is often made right again, and bytes without meaning.
#include <cstdint>
#include <cstring>
#include <vector>

#include "apps/datagen/formats/tar/tar.h"
#include "core/base/check.h"
#include "tests/fuzz/edits.h"

namespace {

using troupe::fuzz::Input;

class VectorSink final : public datagen::ByteSink {
 public:
  void write(std::span<const std::byte> more) override { bytes.insert(bytes.end(), more.begin(), more.end()); }
  [[nodiscard]] std::uint64_t written() const override { return bytes.size(); }
  std::vector<std::byte> bytes;
};

const std::vector<std::byte>& archive() {
  static const std::vector<std::byte> bytes = [] {
    VectorSink sink;
    datagen::TarWriter tar(sink);
    tar.add("000000000.cls", "7");
    tar.add("000000000.npy", std::string(700, 'n'));
    tar.add("000000001.cls", "");
    tar.finish();
    return sink.bytes;
  }();
  return bytes;
}

void mend_checksum(std::vector<std::byte>& bytes) {
  constexpr std::size_t kAt = 148, kWidth = 8, kHeader = 512;
  if (bytes.size() < kHeader) return;
  unsigned sum = 8 * ' ';
  for (std::size_t i = 0; i < kHeader; ++i)
    if (i < kAt || i >= kAt + kWidth) sum += std::to_integer<unsigned>(bytes[i]);
  for (std::size_t i = 0; i < 6; ++i) bytes[kAt + i] = static_cast<std::byte>('0' + (sum >> (15 - 3 * i) & 7));
  bytes[kAt + 6] = std::byte{0};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t kind = input.byte();
  std::vector<std::byte> bytes = kind % 8 == 0 ? input.rest() : archive();
  if (kind % 8 != 0) {
    for (unsigned edits = input.byte() % 4; edits > 0; --edits) troupe::fuzz::edit(bytes, input);
    if (kind % 2 == 0) mend_checksum(bytes);
  }
  const auto members = datagen::read_tar(bytes);
  if (!members.ok()) {
    TROUPE_CHECK(members.error().code() == troupe::ErrorCode::kSerialization, "TAR-3");
    return 0;
  }
  for (const datagen::TarMember& member : *members)
    TROUPE_CHECK(member.data.empty() ||
                 (member.data.data() >= bytes.data() &&
                  member.data.data() + member.data.size() <= bytes.data() + bytes.size()),
                 "TAR-3");
  return 0;
}

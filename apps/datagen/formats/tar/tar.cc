#include "apps/datagen/formats/tar/tar.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>

#include <fmt/format.h>

namespace datagen {
namespace {

constexpr std::size_t kTarBlock = 512, kTarName = 100;
constexpr std::uint64_t kTarSizeMax = std::uint64_t{1} << 33;

struct TarHeader {
  char name[kTarName], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2],
      user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
static_assert(sizeof(TarHeader) == kTarBlock && alignof(TarHeader) == 1);

constexpr std::array<std::byte, 2 * kTarBlock> kZeros{};

template <std::size_t kSize> void put_octal(char (&field)[kSize], std::uint64_t number) {
  for (std::size_t i = kSize - 1; i-- > 0; number >>= 3) field[i] = static_cast<char>('0' + (number & 7));
}

/// With its own checksum taken for spaces.
std::uint64_t checksum_of(const TarHeader& header) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&header);
  const auto sum = [&](std::size_t begin, std::size_t end) {
    return std::accumulate(bytes + begin, bytes + end, std::uint32_t{0});
  };
  return 8 * ' ' + sum(0, offsetof(TarHeader, checksum)) + sum(offsetof(TarHeader, type), sizeof header);
}

/// Digits, then zeros or spaces.
std::optional<std::uint64_t> octal_of(std::string_view field) {
  std::uint64_t number = 0;
  std::size_t i = field.find_first_not_of(' ');
  if (i == std::string_view::npos || field[i] < '0' || field[i] > '7') return std::nullopt;
  for (; i < field.size() && field[i] >= '0' && field[i] <= '7'; ++i)
    number = number << 3 | static_cast<std::uint64_t>(field[i] - '0');
  if (i < field.size() && field[i] != '\0' && field[i] != ' ') return std::nullopt;
  return number;
}

template <std::size_t kSize> std::string_view tar_text(const char (&field)[kSize]) {
  return {field, static_cast<std::size_t>(std::find(field, field + kSize, '\0') - field)};
}

}  // namespace

void TarWriter::add(std::string_view name, std::string_view head, std::span<const std::byte> rest) {
  const std::uint64_t size = head.size() + rest.size();
  if (name.empty() || name.size() > kTarName || size >= kTarSizeMax)
    troupe::InvalidArgumentError(fmt::format("a tar has no place for '{}' of {} bytes: names have 1 to {} bytes, files "
                                             "fewer than 8 GiB",
                                             name, size, kTarName))
        .raise();
  TarHeader header{};
  std::memcpy(header.name, name.data(), name.size());
  put_octal(header.mode, 0644);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, size);
  put_octal(header.mtime, 0);
  header.type = '0';
  std::memcpy(header.magic, "ustar", 6);
  std::memcpy(header.version, "00", 2);
  put_octal(header.major, 0);
  put_octal(header.minor, 0);
  const std::uint64_t sum = checksum_of(header);
  for (std::size_t i = 0; i < 6; ++i) header.checksum[i] = static_cast<char>('0' + (sum >> (15 - 3 * i) & 7));
  header.checksum[7] = ' ';
  sink_.write(std::as_bytes(std::span(&header, 1)));
  if (!head.empty()) sink_.write(std::as_bytes(std::span(head)));
  if (!rest.empty()) sink_.write(rest);
  if (const std::size_t over = size % kTarBlock; over != 0)
    sink_.write(std::span(kZeros).first(kTarBlock - over));
}

void TarWriter::finish() { sink_.write(kZeros); }

troupe::Result<std::vector<TarMember>> read_tar(std::span<const std::byte> archive) {
  std::vector<TarMember> members;
  const auto bad = [&](std::size_t at, std::string_view why) {
    return troupe::SerializationError(fmt::format("no tar of plain files at byte {}: {}", at, why));
  };
  for (std::size_t at = 0;;) {
    if (archive.size() - at < kTarBlock) return bad(at, "it is cut");
    TarHeader header;
    std::memcpy(&header, archive.data() + at, sizeof header);
    if (std::memcmp(&header, kZeros.data(), sizeof header) == 0) {
      if (archive.size() - at < 2 * kTarBlock ||
          std::memcmp(archive.data() + at, kZeros.data(), 2 * kTarBlock) != 0)
        return bad(at, "its end is cut");
      return members;
    }
    if (octal_of({header.checksum, sizeof header.checksum}) != checksum_of(header)) return bad(at, "a wrong checksum");
    if (std::memcmp(header.magic, "ustar", 5) != 0 || (header.type != '0' && header.type != '\0'))
      return bad(at, "a member that is no plain file of ustar");
    const auto size = octal_of({header.size, sizeof header.size});
    at += kTarBlock;
    if (!size || *size > archive.size() - at) return bad(at, "a member is cut");
    std::string name(tar_text(header.prefix));
    if (!name.empty()) name += '/';
    members.push_back({.name = name + std::string(tar_text(header.name)), .data = archive.subspan(at, *size)});
    const std::size_t padded = (*size + kTarBlock - 1) / kTarBlock * kTarBlock;
    if (padded > archive.size() - at) return bad(at, "a member is cut");
    at += padded;
  }
}

}  // namespace datagen

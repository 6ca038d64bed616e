// Small helpers that both ends of a data socket share: checks of headers and chunks.
//
// Thread rule: pure.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>

#include "core/base/bytes.h"
#include "core/net/data/checksum.h"
#include "core/net/data/format.h"

namespace troupe::net {

/// The checksum over a request or reply: of what stands before its `check`.
template <class Header> std::uint64_t header_check(const Header& header) {
  static_assert(offsetof(Header, check) == sizeof(Header) - sizeof header.check);
  return checksum(&header, offsetof(Header, check), 0);
}
inline std::uint64_t chunk_check(ByteView bytes, std::uint64_t offset) {
  return checksum(bytes.data(), bytes.size(), offset);
}

template <class Header> ByteView bytes_of(const Header& header) { return std::as_bytes(std::span(&header, 1)); }
template <class Header> Header header_from(const std::byte* bytes) {
  Header header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

}  // namespace troupe::net

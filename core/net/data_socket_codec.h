// Small helpers that both ends of a data socket share: checks of headers, proofs, and reading exactly as many bytes as wanted.
//
// Thread rule: pure, but for HeaderReader, which belongs to its connection.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>

#include "core/base/bytes.h"
#include "core/net/data_socket_checksum.h"
#include "core/net/data_socket_format.h"
#include "core/net/token.h"

namespace troupe::net {

/// The checksum over a request or reply: of what stands before its `check`.
template <class Header> std::uint64_t header_check(const Header& header) {
  static_assert(offsetof(Header, check) == sizeof(Header) - sizeof header.check);
  return checksum(&header, offsetof(Header, check), 0);
}
inline std::uint64_t chunk_check(ByteView bytes, std::uint64_t offset) { return checksum(bytes.data(), bytes.size(), offset); }

template <class Header> ByteView bytes_of(const Header& header) { return std::as_bytes(std::span(&header, 1)); }
template <class Header> Header header_from(const std::byte* bytes) {
  Header header;
  std::memcpy(&header, bytes, sizeof header);
  return header;
}

enum class DataRole { kServer, kClient };
inline DataDigest data_proof(const Token& token, DataRole role, const DataNonce& client, const DataNonce& server) {
  std::string message = role == DataRole::kServer ? "troupe data 1 server" : "troupe data 1 client";
  message.append(reinterpret_cast<const char*>(client.data()), client.size());
  message.append(reinterpret_cast<const char*>(server.data()), server.size());
  return token.sign(message);
}
inline bool same_proof(const DataDigest& a, const DataDigest& b) {
  return constant_time_equal({reinterpret_cast<const char*>(a.data()), a.size()}, {reinterpret_cast<const char*>(b.data()), b.size()});
}

}  // namespace troupe::net

// The bytes on a data socket. All integers little endian; the structs below are copied as they lie in memory.
//
//   client                                    server
//   ProofHello, ProofAnswer              <->  ProofWelcome                    both know the token: net/base/proof.h
//   DataRequest {buffer, offset, length} ->
//                                       <-    DataReply {total, length} then chunks: DataChunk {offset, size,
//                                       checksum}, bytes
//                                       <-    or DataReply {error} and its text
//   DataRequest ...                     ->    and so on, one request at a time
//
// A connection that begins with a HandOverHeader (net/base/handshakes.h) goes another way: after it come `body_size`
// bytes, and then the connection, with whatever the client sends next, belongs to the one for whom the body is meant (a
// collective's rank: the body holds a one-use key). The cluster token plays no part there.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace troupe::net {

inline constexpr std::uint32_t kDataMagic = 0x54524431;  // "1DRT"
inline constexpr std::uint32_t kDataMessageMax = 4096;
inline constexpr std::uint32_t kDataChunkMax = 4u << 20;

enum class DataType : std::uint16_t { kGet = 1 };

struct DataRequest {
  std::uint32_t magic = kDataMagic;
  DataType type = DataType::kGet;
  std::uint16_t flags = 0;
  std::uint64_t id = 0;         // comes back in the reply
  std::uint32_t node = 0, slot = 0, generation = 0, reserved = 0;
  std::uint64_t offset = 0, length = 0;
  std::uint64_t check = 0;      // xxh3 of what stands before it
};
struct DataReply {
  std::uint32_t magic = kDataMagic;
  std::uint16_t error = 0;      // ErrorCode; 0: chunks follow, else message_size bytes of text
  std::uint16_t reserved = 0;
  std::uint64_t id = 0;
  std::uint64_t total = 0;      // size of the whole buffer
  std::uint64_t length = 0;     // bytes in the chunks
  std::uint32_t message_size = 0, reserved2 = 0;
  std::uint64_t check = 0;
};
struct DataChunk {
  std::uint32_t magic = kDataMagic;
  std::uint32_t size = 0;
  std::uint64_t offset = 0;     // in the buffer
  std::uint64_t check = 0;      // xxh3 of the bytes, seeded with the offset: a chunk in the wrong place fails as well
};

static_assert(sizeof(DataRequest) == 56 && sizeof(DataReply) == 48 && sizeof(DataChunk) == 24);
static_assert(std::has_unique_object_representations_v<DataRequest>);
static_assert(std::has_unique_object_representations_v<DataReply>);
static_assert(std::has_unique_object_representations_v<DataChunk>);

}  // namespace troupe::net

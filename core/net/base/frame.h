// The frame: what two processes exchange, on a ring of shared memory and on the stream between two nodes alike.
//
// A frame is a flat header of 64 bytes and a payload of at most kPayloadMax. The transport looks at nothing but
// payload_size, source and destination; kind, flags, token and the arguments belong to whoever sends (wire/messages.h).
// Byte order is that of x86-64 and AArch64 (little endian); both ends of a cluster are one build.
//
// Thread rule: plain data.
//
// Invariants
//   FR-1  The header is 64 bytes, trivially copyable and without padding: what is copied out is what was put in.
//   FR-2  validate() accepts exactly the headers that Endpoint::send can have made: right version, payload in bounds,
//         reserved bytes zero. Nothing of a header that came from outside is used before validate() said yes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <troupe/result.h>
#include "core/base/bytes.h"
#include "core/base/ids.h"

namespace troupe::net {

inline constexpr std::size_t kPayloadMax = std::size_t{64} << 20;  ///< longest payload of one message
inline constexpr std::uint8_t kFrameVersion = 0xA1;                ///< high half: a frame; low half: format 1

struct FrameHeader {
  std::uint8_t version = kFrameVersion;
  std::uint8_t kind = 0;           ///< opaque here: wire::FrameKind
  std::uint16_t flags = 0;         ///< opaque here
  std::uint32_t payload_size = 0;  ///< set by Endpoint::send
  ProcessId source{};
  ProcessId destination{};
  std::uint64_t token = 0;  ///< opaque: request id, call number
  std::uint64_t arg0 = 0, arg1 = 0, arg2 = 0;
  std::uint32_t arg3 = 0;
  std::uint32_t reserved = 0;  ///< zero
};

static_assert(sizeof(FrameHeader) == 64 && alignof(FrameHeader) == 8);
static_assert(std::is_trivially_copyable_v<FrameHeader> && std::has_unique_object_representations_v<FrameHeader>);
static_assert(offsetof(FrameHeader, payload_size) == 4 && offsetof(FrameHeader, source) == 8);
static_assert(offsetof(FrameHeader, destination) == 16 && offsetof(FrameHeader, token) == 24);
static_assert(offsetof(FrameHeader, arg0) == 32 && offsetof(FrameHeader, arg2) == 48);
static_assert(offsetof(FrameHeader, arg3) == 56 && offsetof(FrameHeader, reserved) == 60);

/// Is this a header that we understand? FR-2. SerializationError says what is wrong with it.
Status validate(const FrameHeader& header);
/// The same without the explanation, for the hot path.
bool is_valid(const FrameHeader& header) noexcept;

/// Reads a header from bytes that came from outside: SerializationError when they are too few or not valid.
Result<FrameHeader> decode_header(ByteView bytes);

}  // namespace troupe::net

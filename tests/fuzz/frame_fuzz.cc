// FR-2: whatever 64 bytes come, decode_header says yes only to what make could have made, and agrees with is_valid.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "core/net/base/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace troupe;
  const ByteView bytes{reinterpret_cast<const std::byte*>(data), size};
  const Result<net::FrameHeader> header = net::decode_header(bytes);
  if (header.ok() && size < sizeof(net::FrameHeader)) std::abort();
  if (size < sizeof(net::FrameHeader)) return 0;
  net::FrameHeader raw;
  std::memcpy(&raw, data, sizeof(raw));
  if (net::is_valid(raw) != header.ok() || net::validate(raw).ok() != header.ok()) std::abort();
  if (header.ok() && (header->payload_size > net::kPayloadMax || std::memcmp(&*header, &raw, sizeof(raw)) != 0))
    std::abort();
  return 0;
}

#include "core/net/base/frame.h"

#include <cstring>
#include <string>

namespace troupe::net {

bool is_valid(const FrameHeader& header) noexcept {
  return header.version == kFrameVersion && header.payload_size <= kPayloadMax && header.reserved == 0;
}

Status validate(const FrameHeader& header) {
  if (header.version != kFrameVersion) {
    return make_error<SerializationError>("frame: version byte " + std::to_string(header.version) + ", expected " +
                                          std::to_string(kFrameVersion));
  }
  if (header.payload_size > kPayloadMax) {
    return make_error<SerializationError>("frame: payload of " + std::to_string(header.payload_size) +
                                          " bytes, at most " + std::to_string(kPayloadMax));
  }
  if (header.reserved != 0) return make_error<SerializationError>("frame: reserved bytes are not zero");
  return {};
}

Result<FrameHeader> decode_header(ByteView bytes) {
  if (bytes.size() < sizeof(FrameHeader)) {
    return make_error<SerializationError>("frame: " + std::to_string(bytes.size()) + " bytes are no header");
  }
  FrameHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (Status status = validate(header); !status) return status.error_ptr();
  return header;
}

}  // namespace troupe::net

// Between frames and the head's events and effects: which method has which struct.
//
// Invariants
//   FC-1  A payload that does not decode gives std::monostate, never an exception: the state answers it.
#pragma once
#include <vector>

#include "core/head/state/events.h"
#include "core/net/base/frame.h"

namespace troupe::head {

/// A control frame as an event; nothing when the frame is of a kind that the head does not speak.
std::optional<Frame> decode_frame(LinkId link, const net::FrameHeader& header, ByteView payload);

struct Encoded {
  net::FrameHeader header;
  std::vector<std::byte> payload;
};
Encoded encode_send(const Send& send);

}  // namespace troupe::head

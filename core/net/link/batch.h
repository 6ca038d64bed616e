// A batch: whole frames one after the other, as a link carries them. Everybody who receives one takes it apart here.
//
// Thread rule: pure.
//
// Invariants
//   NBT-1  What is given out is a header that validate() accepts and as many bytes as it says, all of the batch; bytes
//          that are no whole frame are kBad, and nothing after them is looked at.
#pragma once
#include "core/net/base/frame.h"

namespace troupe::net {

struct BatchFrame {
  enum class State { kFrame, kEnd, kBad } state = State::kEnd;
  FrameHeader header{};
  ByteView payload{};
};

/// The first frame of the batch, which is then the rest of it.
inline BatchFrame next_frame(ByteView& batch) {
  if (batch.empty()) return {};
  const Result<FrameHeader> header = decode_header(batch);
  if (!header.ok() || batch.size() - sizeof(FrameHeader) < header->payload_size)
    return {.state = BatchFrame::State::kBad};
  const ByteView payload = batch.subspan(sizeof(FrameHeader), header->payload_size);
  batch = batch.subspan(sizeof(FrameHeader) + header->payload_size);
  return {BatchFrame::State::kFrame, *header, payload};
}

}  // namespace troupe::net
